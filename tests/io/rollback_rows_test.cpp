#include "lib/io/rollback_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RollbackRows, AreWrittenAndRead) {
  const ScratchFolder folder;
  EXPECT_THAT(read_rollbacks(folder.path()), IsEmpty());
  const std::vector<RollbackRow> rows = {
      {8, 11, 32, 16, R"({"a":[1,"b"]})"}, {8, 10, 48, 4, ""}, {4, 9, 16, 40, "\""}};
  write_rollbacks(folder.path(), rows);
  EXPECT_EQ(
      read_text(folder.path() / "rollbacks.csv"),
      "step,last_skipped,first_sample,samples,phases\n8,11,32,16,\"{\"\"a\"\":[1,\"\"b\"\"]}\"\n"
      "8,10,48,4,\"\"\n4,9,16,40,\"\"\"\"\n");
  EXPECT_EQ(read_rollbacks(folder.path()), rows);
  EXPECT_EQ(last_rollback_to(rows, 8), rows[1]);
  EXPECT_FALSE(last_rollback_to(rows, 6));
  CheckpointMeta meta;
  meta.step = 7;
  meta.samples = 56;
  EXPECT_THAT(rollbacks_until(folder.path(), meta), ElementsAre(rows[2]));
  meta.samples = 55;  // saved before the rollback
  EXPECT_THAT(rollbacks_until(folder.path(), meta), IsEmpty());
  meta.step = 8;
  meta.samples = 32;
  EXPECT_THAT(rollbacks_until(folder.path(), meta), ElementsAre(rows[0], rows[1]));
  continue_after_rollback(meta, rows);
  EXPECT_EQ(meta.samples, 52);
  meta.step = 6;
  continue_after_rollback(meta, rows);
  EXPECT_EQ(meta.samples, 52);
  write_rollbacks(folder.path(), {});
  EXPECT_FALSE(is_there(folder.path() / "rollbacks.csv"));
}

// The run saved step 6, rolled back to step 4, saved another step 6, and rolled back to that one.
TEST(RollbackRows, OfTwoCheckpointsWithOneStepAreToldApart) {
  const ScratchFolder folder;
  const std::vector<RollbackRow> rows = {{4, 7, 12, 9, ""}, {6, 9, 27, 9, ""}};
  write_rollbacks(folder.path(), rows);
  CheckpointMeta meta;
  meta.step = 6;
  meta.samples = 18;  // set aside by the first rollback
  EXPECT_THAT(rollbacks_until(folder.path(), meta), IsEmpty());
  meta.samples = 27;
  EXPECT_EQ(rollbacks_until(folder.path(), meta), rows);
}

TEST(RollbackRows, RefusesADamagedTable) {
  const ScratchFolder folder;
  for (const char* line : {"8,11,32", "8,11,32,16", "8,11,32,x,\"\"", "8,11,32,-1,\"\"",
                           "8,11,32,16,1", "8,11,32,16,\"", "8,11,32,16,\"a\"b\""}) {
    replace_atomically(folder.path() / "rollbacks.csv",
                       "step,last_skipped,first_sample,samples\n" + std::string(line) + "\n");
    EXPECT_THROW(read_rollbacks(folder.path()), Error) << line;
  }
}

TEST(RollbackRows, FindTheRunOfACheckpoint) {
  EXPECT_EQ(run_of_checkpoint("/a/run/checkpoints/step-00000008"), "/a/run");
  EXPECT_EQ(run_of_checkpoint("/a/run/checkpoints/step-00000008/"), "/a/run");
  const ScratchFolder folder;
  const auto at = std::filesystem::canonical(folder.path());
  std::filesystem::create_directories(at / "disk/step-00000008");
  std::filesystem::create_directories(at / "run/checkpoints");
  folder.write("run/effective.toml", "");
  std::filesystem::create_symlink(at / "disk/step-00000008", at / "run/checkpoints/step-00000008");
  EXPECT_EQ(run_of_checkpoint(at / "run/checkpoints/step-00000008"), at / "run");
  std::filesystem::create_symlink(at / "run/checkpoints", at / "elsewhere");
  std::filesystem::create_directories(at / "run/checkpoints/step-00000016");
  EXPECT_EQ(run_of_checkpoint(at / "elsewhere/step-00000016"), at / "run");
}

}  // namespace
}  // namespace trireme
