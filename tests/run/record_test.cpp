#include "lib/run/record.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/io/skipped_rows.hpp"
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

// The table of a version that had fewer columns, which has lost a row that the checkpoint has.
TEST(RunRecord, AnOlderHistoryGetsTheNewColumn) {
  const ScratchFolder scratch;
  const std::filesystem::path run = scratch / "run";
  const RunDirectory directory(run, Existing::refuse);
  const std::string columns =
      "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak";
  std::ofstream(directory.history()) << columns << "\n1,32,3,4,5,6,7,,8,9\n3,96,1,4,5,6,7,,8,9\n";
  CheckpointMeta meta;
  meta.step = 2;
  meta.extra.history = "1,32,3,4,5,6,7,,8,9\n2,64,2,4,5,6,7,,8,9\n";
  {
    RunRecord record(directory, Origin::this_run, Preferences::none, {}, Digests::none,
                     RoutingTable::none, meta);
    HistoryRow row{3, 96, 1, 4, 5, 6, 7, 8, 9};
    row.trained_tokens = 60;
    record.add(row);
    record.put_into(meta);
  }
  const auto rows = "1,32,3,4,5,6,7,,8,9,\n2,64,2,4,5,6,7,,8,9,\n3,96,1,4,5,6,7,,8,9,60\n";
  EXPECT_EQ(read_text(directory.history()), columns + ",trained_tokens\n" + rows);
  EXPECT_EQ(meta.extra.history, rows);
  EXPECT_FALSE(std::filesystem::exists(run / "history.csv.damaged"));
}

// The steps 5 and 6 made the run return to step 4; then step 5 was skipped again.
TEST(RunRecord, StepsBeforeAReturnStayInTheTableOfSkippedSteps) {
  const ScratchFolder scratch;
  const std::filesystem::path run = scratch / "run";
  const RunDirectory directory(run, Existing::refuse);
  const std::string rows =
      "step,reason,loss,grad_norm,first_sample,samples\n2,above_limit,9,1,3,3\n"
      "5,above_limit,9,1,12,3\n6,not_finite,nan,nan,15,3\n";
  std::ofstream(directory.skipped()) << rows << "5,above_limit,8,1,18,3\n7,no_targets,1,1,24,3\n";
  write_rollbacks(run, std::vector<RollbackRow>{{4, 6, 12, 6, "{}"}});
  CheckpointMeta meta;
  for (const auto& [step, added] : {std::pair{6, "5,above_limit,8,1,18,3\n"}, {4, ""}}) {
    meta.step = step;
    const RunRecord record(directory, Origin::this_run, Preferences::none, {}, Digests::none,
                           RoutingTable::none, meta);
    EXPECT_EQ(read_text(directory.skipped()), rows + added) << step;
  }
  EXPECT_FALSE(std::filesystem::exists(run / "skipped.csv.damaged"));
  const auto all = read_skipped(run);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].reason, "not_finite");
  EXPECT_EQ(all[1].first_sample, 12);
}

}  // namespace
}  // namespace trireme
