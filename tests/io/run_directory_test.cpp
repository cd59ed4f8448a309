#include "lib/io/run_directory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_list.hpp"
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
                       "already contains a run"));
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

TEST(RunDirectory, OutcomeNamesTheLaunchOfTheJob) {
  const Folder folder;
  const JobStart first{"7", 1, "deck.toml"}, recovered{"7", 1, "deck.toml", 2},
      requeued{"7", 2, "deck.toml"};
  const RunDirectory run(folder.path(), Existing::refuse);
  Outcome outcome{"running", 3, "", ""};
  outcome.start = recovered;
  run.write_outcome(outcome);
  EXPECT_EQ(run.read_outcome(), outcome);
  EXPECT_TRUE(recovered.follows(first) && requeued.follows(recovered));
  EXPECT_FALSE(first.follows(recovered) || recovered.follows(recovered));
  EXPECT_FALSE(recovered.follows({"8", 0, "deck.toml"}));
  const JobStart smaller{"7", 1, "deck.toml parallel.pipe=2", 2};  // on fewer nodes
  EXPECT_TRUE(smaller.is_after(first) && !smaller.follows(first));
}

// Each beside the files of a run; nothing is removed.
TEST(RunDirectory, OverwriteRefusesWhatNoRunWrote) {
  using Edit = std::function<void(const fs::path& run)>;
  const auto write = [](const char* name) {
    return [name](const fs::path& run) { std::ofstream(run / name) << "mine"; };
  };
  const std::string step = "checkpoints/step-00000003";
  const std::vector<std::pair<std::string, Edit>> edits = {
      {"corpus.tokens", write("checkpoints/corpus.tokens")},
      {"notes", write("checkpoints/step-00000003/notes")},
      {"rank-3.h5", write("checkpoints/step-00000003/rank-3.h5")},
      {"best",
       [&](const fs::path& run) {
         fs::copy(run / step, run / "checkpoints/best", fs::copy_options::recursive);
       }},
      {"step-00000004 is a copy of step 3",
       [&](const fs::path& run) {
         fs::copy(run / step, run / "checkpoints/step-00000004", fs::copy_options::recursive);
       }},
      {"step-00000009",
       [&](const fs::path& run) {
         fs::create_directory_symlink("step-00000003", run / "checkpoints/step-00000009");
       }},
      {"left-step-00000003-x", write("checkpoints/left-step-00000003-x")},
      {"mine.txt",
       [](const fs::path& run) {
         fs::create_directory(run / "trace");
         std::ofstream(run / "trace/mine.txt") << "mine";
       }},
      {"tensorboard/old",
       [](const fs::path& run) { fs::create_directories(run / "tensorboard/old"); }}};
  for (const auto& [name, edit] : edits) {
    Folder folder;
    {
      const RunDirectory run(folder.path(), Existing::refuse);
      run.write_deck("");
      save_sample(run.checkpoints(), 3);
    }
    edit(folder.path());
    const auto message = message_of([&] { RunDirectory(folder.path(), Existing::overwrite); });
    EXPECT_TRUE(contains(message, name) && contains(message, "Nothing was removed")) << message;
    EXPECT_TRUE(fs::exists(folder.path() / step / "manifest.json"));
  }
}

TEST(RunDirectory, OverwriteRemovesAllThatARunWrites) {
  Folder folder;
  {
    const RunDirectory run(folder.path(), Existing::refuse);
    run.write_deck("");
    for (const int step : {3, 5}) save_sample(run.checkpoints(), step);
    EXPECT_EQ(set_aside_after(run.checkpoints(), 3).size(), 1U);
    save_sample(run.checkpoints(), 5);
    EXPECT_EQ(set_aside_after(run.checkpoints(), 3).size(), 1U);
    fs::create_directories(run.checkpoints() / ".step-00000007.partial");
    std::ofstream(run.checkpoints() / ".step-00000007.partial/rank-00012.h5") << "cut";
    fs::create_directories(run.checkpoints() / "step-00000003/.repair");
    std::ofstream(run.checkpoints() / "step-00000003/.repair/manifest.json") << "cut";
    for (const auto& folder_of : {run.trace(), run.events()}) fs::create_directory(folder_of);
    std::ofstream(run.trace() / "steps-00000001-00000002.json") << "{";
    std::ofstream(run.trace() / "steps-00000001-00000002.json.new") << "{";
    std::ofstream(run.events() / "events.out.tfevents.0000000001.host") << "x";
    std::ofstream(run.path() / "history.csv.new") << "x";
  }
  const RunDirectory run(folder.path(), Existing::overwrite);
  run.remove_earlier_run();
  EXPECT_TRUE(fs::is_empty(run.checkpoints()));
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_TRUE(entry.path().filename() == "checkpoints" || entry.path().filename() == "lock")
        << entry.path();
}

TEST(RunDirectory, OverwriteEmptiesCheckpointsBehindALink) {
  Folder folder;
  const auto run_path = folder.path() / "run", disk = folder.path() / "disk";
  {
    const RunDirectory run(run_path, Existing::refuse);
    run.write_deck("");
    save_sample(run.checkpoints(), 3);
    fs::rename(run.checkpoints(), disk);
    fs::create_directory_symlink(disk, run.checkpoints());
  }
  const RunDirectory run(run_path, Existing::overwrite);
  run.remove_earlier_run();
  EXPECT_TRUE(fs::is_symlink(run.checkpoints()));
  EXPECT_TRUE(fs::is_empty(disk));
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
