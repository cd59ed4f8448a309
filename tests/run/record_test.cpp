#include "lib/run/record.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

// A checkpoint brings the rows of a set without a table, but names no other file.
TEST(RunRecord, TablesOfSetsAreInTheirFolder) {
  const ScratchFolder scratch;
  const std::filesystem::path run = scratch / "run";
  const RunDirectory directory(run, Existing::refuse);
  CheckpointMeta meta;
  meta.step = 2;
  meta.extra.evaluation_of_sets = "../../out,2,8,1,2.5\ncode,2,8,1,2.5\n";
  const RunRecord record(directory, Origin::this_run, Preferences::none, {}, Digests::none,
                         RoutingTable::none, meta);
  EXPECT_TRUE(has_row(directory.evaluation("code"), evaluation_columns, 2));
  EXPECT_FALSE(std::filesystem::exists(scratch / "out.csv"));
}

}  // namespace
}  // namespace trireme
