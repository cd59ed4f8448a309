// Locks of this host and, as their files show them, of others; with times of milliseconds.
#include "lib/io/run_lock.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/run_directory.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme {
namespace {

using namespace test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Holders give signs of life every 20 ms. On a busy machine one may be late by the slack.
constexpr LockTimes beside_living{.heartbeat = 20ms, .slack = 100ms, .silence = 5s, .look = 2ms},
    behind_dead{.heartbeat = 20ms, .slack = 10ms, .silence = 50ms, .look = 2ms};
constexpr auto grace_of(const LockTimes& p) {
  return p.heartbeat + p.slack;
}

LockHolder process_of(const std::string& job, int restart, const std::string& host) {
  auto holder = this_process();
  holder.job = job;
  holder.restart = restart;
  if (!host.empty()) holder.host = host;
  return holder;
}

class Lock : public testing::Test {
 protected:
  Lock() {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_RESTART_COUNT"})
      unsetenv(name);
  }
  // What a process wrote that gives no sign of life any more.
  void held_by(const LockHolder& by) const { replace_atomically(file, text_of(by)); }
  static LockOptions as(const LockHolder& me, const LockTimes& times = beside_living) {
    return {.me = me, .times = times};
  }
  std::unique_ptr<RunLock> taken_by(const LockHolder& me) {
    auto options = as(me);
    options.lost = [this](const std::string& why) {
      loss = why;
      losses.release();
    };
    return std::make_unique<RunLock>(folder.path(), options);
  }
  // Of the attempt to take it, and how long that took.
  std::string refusal(const LockHolder& me, const LockTimes& times = beside_living) {
    const auto begin = Clock::now();
    auto text = message_of([&] { RunLock(folder.path(), as(me, times)); });
    took = Clock::now() - begin;
    return text;
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(folder.path()))
      names.push_back(e.path().filename().string());
    return names;
  }
  ScratchFolder folder;
  std::filesystem::path file = folder.path() / "lock";
  LockHolder here = process_of("-", 0, ""), elsewhere = process_of("-", 0, "elsewhere");
  std::string loss;                     // what a holder was notified of
  std::counting_semaphore<> losses{0};  // how many were
  Clock::duration took{};
};

TEST_F(Lock, SaysWhoHoldsItAndIsGoneAfterwards) {
  setenv("SLURM_JOB_ID", "7", 1);
  {
    const RunLock lock(folder.path());
    EXPECT_TRUE(read_text(file).starts_with("job 7 restart 0 process ")) << read_text(file);
    EXPECT_EQ(parse_lock_holder(read_text(file))->pid_space, here.pid_space);
    EXPECT_EQ(entries(), std::vector<std::string>{"lock"});
    const auto text = message_of([&] { RunLock(folder.path()); });  // without a wait
    EXPECT_TRUE(contains(text, "another process is training in") && contains(text, "(job 7 "))
        << text;
    EXPECT_NO_THROW(require_lock(folder.path(), lock.text()));
  }
  EXPECT_EQ(entries(), std::vector<std::string>{});
}

// It is put there when the file that is to become the lock has been written. That may come too late
// on a busy machine, and is tried again.
TEST_F(Lock, OfAnotherThatComesMeanwhileStays) {
  const auto prepared = folder.path() / "prepared";
  write_new(prepared, text_of(here));
  const auto alive = PosixFile::open(prepared);
  ASSERT_EQ(::flock(alive.descriptor(), LOCK_EX | LOCK_NB), 0);
  for (int attempt = 0; attempt < 200; ++attempt) {
    const auto me = process_of("-", 0, "");
    const auto own = folder.path() / ("lock." + me.id);
    bool first = false;
    std::jthread other([&](const std::stop_token& over) {
      while (!over.stop_requested() && !std::filesystem::exists(own)) std::this_thread::yield();
      first = ::link(prepared.c_str(), file.c_str()) == 0;
    });
    const auto text = message_of([&] { RunLock(folder.path(), as(me)); });
    other.request_stop();
    other.join();
    if (first && !text.empty()) {
      EXPECT_TRUE(contains(text, "another process is training in")) << text;
      EXPECT_EQ(read_text(file), text_of(here));
      return;
    }
    ASSERT_TRUE(!first || std::filesystem::exists(file)) << "the other's was replaced";
    std::filesystem::remove(file);
  }
  GTEST_SKIP() << "the other came too late each time";
}

TEST_F(Lock, OfAProcessOfThisKernelThatEndedIsFreeAtOnce) {
  if (const auto child = fork(); child == 0) {
    new RunLock(folder.path());
    std::_Exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  ASSERT_TRUE(contains(read_text(file), " on "));
  const auto begin = Clock::now();
  const RunLock lock(folder.path());
  EXPECT_LT(Clock::now() - begin, LockTimes().heartbeat);
  // A copy of the directory is nobody's, either.
  std::filesystem::create_directory(folder.path() / "copy");
  std::filesystem::copy(file, folder.path() / "copy/lock");
  const RunLock copied(folder.path() / "copy");
  EXPECT_LT(Clock::now() - begin, LockTimes().heartbeat);
}

// Numbers of processes mean nothing there, nor does a flock.
TEST_F(Lock, OfAnotherKernelIsHeldAsLongAsItGivesSignsOfLife) {
  auto container = here;
  container.pid_space = "another";
  for (const auto& other : {elsewhere, container}) {
    const auto lock = taken_by(other);
    const auto text = refusal(here);
    EXPECT_TRUE(contains(text, "another process is training in")) << text;
    EXPECT_FALSE(losses.try_acquire());
  }
  held_by(elsewhere);
  EXPECT_EQ(refusal(here, behind_dead), "");
  EXPECT_GE(took, behind_dead.silence + grace_of(behind_dead));
}

// Clocks of other machines are wrong by minutes and hours.
TEST_F(Lock, IsHeldHoweverOldItsTime) {
  for (const char* job : {"-", "13"}) {
    held_by(process_of("12", 0, "elsewhere"));
    const auto before = std::filesystem::file_time_type::clock::now() - 75s;
    std::filesystem::last_write_time(file, before);
    const std::jthread other([&] {
      std::this_thread::sleep_for(30ms);
      std::filesystem::last_write_time(file, before + 5s);
    });
    const auto text = refusal(process_of(job, 0, ""));
    EXPECT_TRUE(contains(text, "another process is training in")) << text;
  }
}

// The job's script starts the program again after a failure, without a requeue.
TEST_F(Lock, OfAnEarlierLaunchOfTheSameStartIsTakenOver) {
  const auto launched = [](int restart, int recovery, const std::string& host) {
    auto holder = process_of("12", restart, host);
    holder.recovery = recovery;
    return holder;
  };
  const auto third = launched(1, 2, "elsewhere");
  EXPECT_TRUE(text_of(third).starts_with("job 12 restart 1 process ") &&
              text_of(third).ends_with(" recovery 2"))
      << text_of(third);
  EXPECT_EQ(parse_lock_holder(text_of(third)), third);
  EXPECT_EQ(parse_lock_holder(text_of(launched(1, 0, "elsewhere")))->recovery, 0);
  held_by(third);
  EXPECT_EQ(refusal(launched(1, 3, "")), "");
  EXPECT_LT(took, beside_living.silence);
  held_by(third);
  EXPECT_EQ(refusal(launched(2, 0, "")), "");  // requeued after recoveries
  EXPECT_LT(took, beside_living.silence);
  const auto living = taken_by(third);
  for (const auto& earlier :
       {launched(1, 1, "another"), launched(0, 5, "another"), launched(1, 2, "another")})
    EXPECT_TRUE(contains(refusal(earlier), "another process is training")) << text_of(earlier);
}

TEST_F(Lock, OfThisJobBeforeItWasRequeuedIsTakenOverWhenItHasEnded) {
  const auto first = taken_by(process_of("12", 9, "elsewhere"));
  const auto outcome = [&](const RunLock& by) {
    return message_of([&] { write_outcome(folder.path(), by.text(), {"done", 3, "", ""}); });
  };
  EXPECT_EQ(outcome(*first), "");
  {
    const auto second = taken_by(process_of("12", 10, "another"));
    ASSERT_TRUE(losses.try_acquire());  // before the second goes on
    EXPECT_TRUE(contains(loss, "was taken over by job 12 restart 10 ")) << loss;
    EXPECT_TRUE(contains(outcome(*first), "was taken over by")) << outcome(*first);
    EXPECT_EQ(outcome(*second), "");
    EXPECT_TRUE(contains(refusal(process_of("12", 9, "elsewhere")), "another process is training"));
    EXPECT_TRUE(contains(refusal(process_of("12", 10, "third")), "another process is training"));
    EXPECT_TRUE(contains(refusal(process_of("13", 11, "third")), "another process is training"));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  held_by(process_of("12", 0, "elsewhere"));
  EXPECT_EQ(refusal(process_of("12", 1, "")), "");
  EXPECT_LT(took, beside_living.silence);
}

TEST_F(Lock, OfSeveralThatCreateItAtATimeOneSucceeds) {
  for (int round = 0; round < 12; ++round) {
    std::atomic<int> ready = 0, have = 0, refused = 0;
    const auto start = [&](int i) {
      const auto me = process_of("-", 0, i < 2 ? "n" + std::to_string(i) : "");
      ++ready;
      while (ready < 4) std::this_thread::yield();
      try {
        const RunLock lock(folder.path(), as(me));
        ++have;
        while (have + refused < 4) std::this_thread::sleep_for(1ms);
      } catch (const Error&) {
        ++refused;
      }
    };
    {
      std::vector<std::jthread> processes;
      for (int i = 0; i < 4; ++i) processes.emplace_back(start, i);
    }
    EXPECT_EQ(have, 1);
    EXPECT_EQ(entries(), std::vector<std::string>{});
  }
}

TEST_F(Lock, OfSeveralThatTakeItOverOneSucceeds) {
  held_by(process_of("12", 0, "elsewhere"));
  std::atomic<int> have = 0, refused = 0;
  constexpr LockTimes times{.heartbeat = 20ms, .slack = 180ms, .silence = 300ms, .look = 2ms};
  const auto start = [&](const std::string& host) {
    try {
      const RunLock lock(folder.path(), as(process_of("-", 0, host), times));
      ++have;
      while (have + refused < 3) std::this_thread::sleep_for(1ms);
    } catch (const Error&) {
      ++refused;
    }
  };
  { const std::jthread a(start, "a"), b(start, "b"), c(start, "c"); }
  EXPECT_EQ(have, 1);
}

TEST_F(Lock, WhoIsAskedToStopWaitsNoLonger) {
  held_by(elsewhere);
  auto options = as(here);
  options.stop = [] { return true; };
  EXPECT_THROW(RunLock(folder.path(), options), StoppedWaiting);
  EXPECT_EQ(read_text(file), text_of(elsewhere));
  EXPECT_EQ(entries(), std::vector<std::string>{"lock"});
}

TEST_F(Lock, ReleasedWhileItIsWaitedForIsFree) {
  held_by(elsewhere);
  const std::jthread other([this] {
    std::this_thread::sleep_for(20ms);
    std::filesystem::remove(file);
  });
  EXPECT_EQ(refusal(here), "");
  EXPECT_LT(took, beside_living.silence);
}

// The other's run is complete then, and is nothing to be written over.
TEST_F(Lock, ARunThatEndedWhileItIsWaitedForIsRefused) {
  for (const auto& [existing, says] : {std::pair(Existing::refuse, "already contains a run"),
                                       std::pair(Existing::absent, "began a run in")}) {
    std::filesystem::remove(folder.path() / "outcome.json");
    held_by(elsewhere);
    const std::jthread other([this] {
      std::this_thread::sleep_for(20ms);
      write_outcome(folder.path(), text_of(elsewhere), {"done", 30, "all steps are done", ""});
      std::filesystem::remove(file);
    });
    const auto text = message_of([&, e = existing] { RunDirectory(folder.path(), e); });
    EXPECT_TRUE(contains(text, says)) << text;
  }
}

TEST_F(Lock, WhoseFileSomebodyRemovesEnds) {
  const auto first = taken_by(here);
  std::filesystem::remove(file);
  const auto text = message_of([&] { require_lock(folder.path(), first->text()); });
  EXPECT_TRUE(contains(text, "lock is gone")) << text;
  const auto second = taken_by(elsewhere);
  EXPECT_TRUE(losses.try_acquire_for(10s));
  EXPECT_EQ(read_text(file), second->text());
}

// Whoever lost it leaves it to whom it belongs.
TEST_F(Lock, ReleasesOnlyItsOwn) {
  auto lock = taken_by(here);
  held_by(elsewhere);
  lock.reset();
  EXPECT_EQ(read_text(file), text_of(elsewhere));
}

TEST_F(Lock, ThatIsALinkIsRefusedAndLeftAlone) {
  const auto target = folder.write("thesis.tex", "years of work");
  std::filesystem::create_symlink(target, file);
  EXPECT_TRUE(contains(refusal(here), "lock is not a regular file -- remove it"));
  std::filesystem::remove(file);
  std::filesystem::create_symlink(folder.path() / "nothing", file);
  EXPECT_TRUE(contains(refusal(here), "lock is not a regular file -- remove it"));
  EXPECT_EQ(read_text(target), "years of work");
}

// Emptied by an earlier version, damaged; and what a process left that died is cleared away.
TEST_F(Lock, OfNobodyIsFreeAfterARest) {
  folder.write("lock.tex", "");
  for (const auto* text : {"", "process 3 on elsewhere"}) {
    folder.write("lock", text);
    folder.write("lock." + elsewhere.id, "");
    EXPECT_EQ(refusal(here), "");
    EXPECT_TRUE(took >= grace_of(beside_living) && took < beside_living.silence);
    EXPECT_EQ(entries(), std::vector<std::string>{"lock.tex"});
  }
}

// As earlier versions wrote it, and filled it up.
TEST_F(Lock, OfAnEarlierVersionIsHeldAsLongAsItGivesSignsOfLife) {
  folder.write("lock", short_text_of(here) + std::string(100, ' '));
  const std::jthread other([this] {
    std::this_thread::sleep_for(30ms);
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now());
  });
  EXPECT_TRUE(contains(refusal(here), "another process is training in"));
}

}  // namespace
}  // namespace trireme
