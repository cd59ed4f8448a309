// Locks of other hosts, as their files show them.
#include "lib/io/run_lock.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <span>
#include <thread>

#include "lib/io/posix_file.hpp"
#include "lib/io/run_directory.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme {
namespace {

using namespace test;
using namespace std::chrono_literals;

class Lock : public testing::Test {
 protected:
  Lock() {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_RESTART_COUNT"})
      unsetenv(name);
  }
  // That of a process elsewhere which gave a sign of life so long ago.
  void held(const std::string& by, std::chrono::seconds ago) const {
    replace_atomically(file, by);
    std::filesystem::last_write_time(file, now - ago);
  }
  std::string refusal() const {
    return message_of([this] { RunLock(folder.path(), now); });
  }
  ScratchFolder folder;
  std::filesystem::path file = folder.path() / "lock";
  std::filesystem::file_time_type now = std::filesystem::file_time_type::clock::now();
};

TEST_F(Lock, SaysWhoHoldsItAndIsEmptyAfterwards) {
  setenv("SLURM_JOB_ID", "7", 1);
  {
    const RunLock lock(folder.path(), now);
    EXPECT_TRUE(read_text(file).starts_with("job 7 restart 0 process ")) << read_text(file);
    EXPECT_TRUE(contains(refusal(), "another process is training in"));
  }
  EXPECT_EQ(read_text(file), "");
  EXPECT_EQ(refusal(), "no error");
}

TEST_F(Lock, OfAnotherHostCountsForAMinute) {
  held("job 12 restart 0 process 3 on elsewhere", 50s);
  EXPECT_TRUE(
      contains(refusal(), "job 12 restart 0 process 3 on elsewhere, last sign of life 50 s"))
      << refusal();
  held("job 12 restart 0 process 3 on elsewhere", 61s);
  EXPECT_EQ(refusal(), "no error");
}

TEST_F(Lock, OfThisJobBeforeItWasRequeuedIsTakenOver) {
  setenv("SLURM_JOB_ID", "12", 1);
  held("job 12 restart 0 process 3 on elsewhere", 1s);
  {
    const std::jthread other([this] {  // another step of the same start, which lives
      std::this_thread::sleep_for(300ms);
      std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now());
    });
    const auto text = refusal();
    EXPECT_TRUE(contains(text, "another process is training in")) << text;
  }
  setenv("SLURM_RESTART_COUNT", "1", 1);
  EXPECT_EQ(refusal(), "no error");
  held("job - restart 0 process 3 on elsewhere", 1s);
  unsetenv("SLURM_JOB_ID");
  EXPECT_NE(refusal(), "no error");  // who has no job has none in common
}

// A node that was cut off goes on with the job's first start while the second trains elsewhere.
TEST_F(Lock, OfALaterStartOfThisJobIsNotTakenOver) {
  setenv("SLURM_JOB_ID", "12", 1);
  setenv("SLURM_RESTART_COUNT", "9", 1);
  held("job 12 restart 10 process 3 on elsewhere", 1s);
  const std::jthread other([this] {
    std::this_thread::sleep_for(300ms);
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now());
  });
  const auto text = refusal();
  EXPECT_TRUE(contains(text, "another process is training in")) << text;
}

// The next job of a chain, right behind a node's failure.
TEST_F(Lock, AJobWaitsForTheSilenceOfAnotherHost) {
  setenv("SLURM_JOB_ID", "13", 1);
  held("job 12 restart 0 process 3 on elsewhere", 59s);
  EXPECT_EQ(refusal(), "no error");
}

// The clock of the file system is 58 s behind this host's.
TEST_F(Lock, SilenceIsMeasuredByOneClock) {
  setenv("SLURM_JOB_ID", "13", 1);
  now -= 58s;
  held("job 12 restart 0 process 3 on elsewhere", 5s);
  const std::jthread other([this] {
    std::this_thread::sleep_for(300ms);
    std::filesystem::last_write_time(file, now);
  });
  const auto text = refusal();
  EXPECT_TRUE(contains(text, "another process is training in")) << text;
}

// The file's time is of its holder's clock, which is 70 s behind.
TEST_F(Lock, ALivingOneIsNotTakenOverHoweverOldItsTime) {
  for (const char* job : {"13", ""}) {
    if (*job) setenv("SLURM_JOB_ID", job, 1);
    held("job 12 restart 0 process 3 on elsewhere", 75s);
    const std::jthread other([this] {
      std::this_thread::sleep_for(300ms);
      std::filesystem::last_write_time(file, now - 70s);
    });
    const auto text = refusal();
    EXPECT_TRUE(contains(text, "another process is training in")) << text;
    unsetenv("SLURM_JOB_ID");
  }
}

TEST_F(Lock, AJobThatIsAskedToStopWaitsNoLonger) {
  setenv("SLURM_JOB_ID", "13", 1);
  held("job 12 restart 0 process 3 on elsewhere", 5s);
  const auto before = read_text(file);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(RunLock(folder.path(), now, [] { return true; }), StoppedWaiting);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(read_text(file), before);
}

TEST_F(Lock, ReleasedWhileItIsWaitedForIsFree) {
  setenv("SLURM_JOB_ID", "13", 1);
  held("job 12 restart 0 process 3 on elsewhere", 5s);
  const std::jthread other([this] {
    std::this_thread::sleep_for(300ms);
    std::filesystem::resize_file(file, 0);
  });
  EXPECT_EQ(refusal(), "no error");
}

// The other's run is complete then, and is nothing to be written over.
TEST_F(Lock, ARunThatEndedWhileItIsWaitedForIsRefused) {
  setenv("SLURM_JOB_ID", "13", 1);
  held("job 12 restart 0 process 3 on elsewhere", 5s);
  const std::jthread other([this] {
    std::this_thread::sleep_for(300ms);
    write_outcome(folder.path(), {"done", 30, "all steps are done", ""});
    std::filesystem::resize_file(file, 0);
  });
  const auto text = message_of([this] { RunDirectory(folder.path(), Existing::refuse); });
  EXPECT_TRUE(contains(text, "holds a run already")) << text;
}

TEST_F(Lock, RemovedWhileItIsWaitedForIsFree) {
  setenv("SLURM_JOB_ID", "13", 1);
  held("job 12 restart 0 process 3 on elsewhere", 5s);
  const std::jthread other([this] {
    std::this_thread::sleep_for(300ms);
    std::filesystem::remove(file);
  });
  EXPECT_EQ(refusal(), "no error");
}

TEST_F(Lock, AFreeOneThatTwoJobsTakeIsTheLastOnes) {
  setenv("SLURM_JOB_ID", "13", 1);
  const std::jthread other([this] {
    while (!std::filesystem::exists(file) || !contains(read_text(file), "job 13"))
      std::this_thread::sleep_for(1ms);
    replace_atomically(file, "job 14 restart 0 process 5 on elsewhere");
  });
  const auto text = refusal();
  EXPECT_TRUE(contains(text, "at the same time")) << text;
  EXPECT_EQ(read_text(file), "job 14 restart 0 process 5 on elsewhere");
}

// Whoever lost it leaves it to whom it belongs.
TEST_F(Lock, ReleasesOnlyItsOwn) {
  std::optional<RunLock> lock(std::in_place, folder.path(), now);
  { PosixFile::open_to_write(file).write_at(std::as_bytes(std::span("job 14 ", 7)), 0); }
  lock.reset();
  EXPECT_TRUE(read_text(file).starts_with("job 14 ")) << read_text(file);
}

TEST_F(Lock, OfTwoThatTakeItOverTheLastHasIt) {
  held("job 12 restart 0 process 3 on elsewhere", 61s);
  const std::jthread other([this] {
    while (!contains(read_text(file), "process " + std::to_string(::getpid())))
      std::this_thread::sleep_for(1ms);
    replace_atomically(file, "job 14 restart 0 process 5 on a third");
  });
  const auto text = refusal();
  EXPECT_TRUE(contains(text, "at the same time")) << text;
  EXPECT_EQ(read_text(file), "job 14 restart 0 process 5 on a third");
}

TEST_F(Lock, OfNobodyIsFree) {
  held("process 3 on elsewhere", 1s);  // as earlier versions wrote it
  EXPECT_EQ(refusal(), "no error");
}

}  // namespace
}  // namespace trireme
