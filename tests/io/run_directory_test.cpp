#include "lib/io/run_directory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "lib/base/posix_file.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;
namespace fs = std::filesystem;

TEST(RunDirectory, IsCreatedAndKeepsItsFiles) {
  Folder folder;
  const RunDirectory run(folder.path() / "runs" / "first", Existing::refuse);
  EXPECT_TRUE(fs::is_directory(run.checkpoints()));
  run.write_deck("[model]\n");
  run.write_deck("[model]\nwidth = 8\n");
  EXPECT_EQ(read_text(run.path() / "effective.toml"), "[model]\nwidth = 8\n");
  EXPECT_FALSE(run.read_outcome());
  const Outcome outcome{"stopped", 420, "time limit \xff", "step-00000420", "a CPU"};
  run.write_outcome(outcome);
  ASSERT_TRUE(run.read_outcome());
  EXPECT_EQ(run.read_outcome()->step, 420);
  EXPECT_EQ(run.read_outcome()->last_good_checkpoint, "step-00000420");
  EXPECT_EQ(run.read_outcome()->machine, "a CPU");
  std::ofstream(run.path() / "outcome.json") << "{\"status\": ";
  EXPECT_FALSE(run.read_outcome());
}

TEST(RunDirectory, ARunInItIsRefusedWithTheTwoWaysOut) {
  Folder folder;
  std::ofstream(folder.path() / "history.csv") << "step,tokens\n";
  EXPECT_EQ(message_of([&] { RunDirectory(folder.path(), Existing::refuse); }), "");
  std::ofstream(folder.path() / "history.csv") << "step,tokens\n1,64\n";
  const auto message = message_of([&] { RunDirectory(folder.path(), Existing::refuse); });
  EXPECT_TRUE(contains(message, "--restart latest")) << message;
  EXPECT_TRUE(contains(message, "--overwrite")) << message;
  EXPECT_EQ(message_of([&] { RunDirectory(folder.path(), Existing::restart); }), "");
  fs::remove(folder.path() / "history.csv");
  save_sample(folder.path() / "checkpoints", 3);
  EXPECT_TRUE(contains(message_of([&] { RunDirectory(folder.path(), Existing::refuse); }),
                       "holds a run already"));
}

TEST(RunDirectory, OverwriteEmptiesARunAndLeavesFilesOfOthers) {
  Folder folder;
  {
    const RunDirectory run(folder.path(), Existing::refuse);
    run.write_deck("");
    save_sample(run.checkpoints(), 3);
  }
  std::ofstream(folder.path() / "history.csv") << "step,tokens\n1,64\n";
  std::ofstream(folder.path() / "notes.txt") << "mine";
  const RunDirectory run(folder.path(), Existing::overwrite);
  EXPECT_FALSE(fs::is_empty(run.checkpoints()));
  EXPECT_TRUE(fs::exists(run.history()));

  run.remove_earlier_run();

  EXPECT_TRUE(fs::is_empty(run.checkpoints()));
  EXPECT_FALSE(fs::exists(run.history()));
  EXPECT_TRUE(fs::exists(folder.path() / "notes.txt"));
}

TEST(RunDirectory, OverwriteLeavesAlone) {
  Folder folder;
  std::ofstream(folder.path() / "thesis.tex") << "years of work";
  std::ofstream(folder.path() / "log") << "mine too";
  const auto message = message_of([&] { RunDirectory(folder.path(), Existing::overwrite); });
  EXPECT_TRUE(contains(message, "does not look like a run directory (it holds thesis.tex)"))
      << message;
  EXPECT_TRUE(fs::exists(folder.path() / "log"));
}

TEST(RunDirectory, OneThatCannotBeWrittenIsNamed) {
  Folder folder;
  const auto locked = folder.path() / "locked";
  fs::create_directory(locked);
  fs::permissions(locked, fs::perms(0555));
  const bool root = geteuid() == 0;
  ASSERT_EQ(root ? seteuid(65534) : 0, 0);
  const auto inside = message_of([&] { RunDirectory(locked, Existing::refuse); });
  const auto below = message_of([&] { RunDirectory(locked / "run", Existing::refuse); });
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  EXPECT_TRUE(contains(inside, "cannot be written") && contains(inside, "Permission denied"))
      << inside;
  EXPECT_TRUE(contains(below, "--run-dir")) << below;
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_TRUE(contains(message_of([&] { RunDirectory(folder.path() / "file", Existing::refuse); }),
                       "is a file"));
}

}  // namespace trireme
