#include "lib/run/signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trireme {
namespace {

constexpr std::array watched{SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1};

std::size_t blocked() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  std::size_t n = 0;
  for (const int s : watched) n += sigismember(&mask, s) == 1;
  return n;
}

// As in a new process.
class Signals : public testing::Test {
 protected:
  Signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const int s : watched) {
      std::signal(s, SIG_IGN);  // drops what is pending
      std::signal(s, SIG_DFL);
      sigaddset(&all, s);
    }
    pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  }
};

// Delivery is another thread's work.
bool soon(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return holds();
}

TEST_F(Signals, OneAsksForACheckpointOnce) {
  SignalWatch signals;
  EXPECT_EQ(signals.take(), RunRequest::nothing);
  RunRequest asked{};

  kill(getpid(), SIGUSR1);

  EXPECT_TRUE(soon([&] {
    return asked == RunRequest::checkpoint || (asked = signals.take()) == RunRequest::checkpoint;
  }));
  EXPECT_EQ(signals.take(), RunRequest::nothing);
  EXPECT_FALSE(signals.stop());
}

TEST_F(Signals, AStopStays) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    SignalWatch signals;

    kill(getpid(), number);
    kill(getpid(), number);  // the same request, delivered twice

    EXPECT_TRUE(soon([&] { return signals.stop(); }));
    EXPECT_EQ(signals.take(), RunRequest::stop);
    EXPECT_EQ(signals.take(), RunRequest::stop);
  }
}

TEST_F(Signals, AreAnnouncedWhenTheyArrive) {
  SignalWatch signals;
  std::mutex mutex;
  std::vector<std::string> heard;
  const auto listener = [&](std::string_view name, RunRequest request) {
    const std::scoped_lock lock(mutex);
    heard.push_back(std::string(name) + (request == RunRequest::stop ? " stop" : " checkpoint"));
  };
  const auto number = [&] {
    const std::scoped_lock lock(mutex);
    return heard.size();
  };
  signals.announce(listener);

  kill(getpid(), SIGUSR1);
  EXPECT_TRUE(soon([&] { return number() == 1; }));
  kill(getpid(), SIGUSR1);
  EXPECT_TRUE(soon([&] { return number() == 2; }));
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(soon([&] { return number() == 3; }));
  kill(getpid(), SIGHUP);  // asks for nothing new
  kill(getpid(), SIGUSR1);
  EXPECT_TRUE(soon([&] { return number() == 4; }));

  signals.announce({});
  const std::vector<std::string> expected{"SIGUSR1 checkpoint", "SIGUSR1 checkpoint",
                                          "SIGTERM stop", "SIGUSR1 checkpoint"};
  EXPECT_EQ(heard, expected);
}

TEST_F(Signals, AStopBeforeItIsAwaitedIsAnnounced) {
  SignalWatch signals;
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(soon([&] { return signals.stop(); }));
  std::atomic<bool> heard = false;
  signals.announce([&](std::string_view name, RunRequest request) {
    heard = name == "SIGTERM" && request == RunRequest::stop;
  });
  EXPECT_TRUE(soon([&] { return heard.load(); }));
}

// A pipe without a reader: the write fails, the signal does not end the process.
TEST_F(Signals, AnOutputThatNobodyReadsIsAStop) {
  SignalWatch signals;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  EXPECT_FALSE(signals.stop());

  EXPECT_EQ(write(ends[1], "x", 1), -1);

  EXPECT_EQ(signals.take(), RunRequest::stop);
  close(ends[1]);
}

// As long as MPI and libraries start, and over exec. Threads of earlier cases would take the
// signals.
TEST_F(Signals, WhatWasHeldBeforeIsNotedAtOnce) {
  const auto in_a_process_of_one_thread = [] {
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1}) {
      hold_signals();
      kill(getpid(), number);
      SignalWatch signals;

      EXPECT_EQ(signals.stop(), number != SIGUSR1);
      EXPECT_EQ(signals.take(), number == SIGUSR1 ? RunRequest::checkpoint : RunRequest::stop);
      std::signal(SIGPIPE, SIG_IGN);  // drops it
      std::signal(SIGPIPE, SIG_DFL);
    }
    EXPECT_EQ(blocked(), watched.size()) << "also behind the watch";
    std::_Exit(HasFailure());
  };
  EXPECT_EXIT(in_a_process_of_one_thread(), testing::ExitedWithCode(0), "");
}

TEST_F(Signals, AHangUpIsIgnoredUnderNohup) {
  std::signal(SIGHUP, SIG_IGN);
  SignalWatch signals;

  kill(getpid(), SIGHUP);
  kill(getpid(), SIGUSR1);

  RunRequest asked{};
  EXPECT_TRUE(soon([&] {
    return asked == RunRequest::checkpoint || (asked = signals.take()) == RunRequest::checkpoint;
  }));
  EXPECT_FALSE(signals.stop());
}

TEST_F(Signals, AreForgottenWithTheirWatch) {
  {
    SignalWatch signals;
    kill(getpid(), SIGTERM);
    EXPECT_TRUE(soon([&] { return signals.stop(); }));
  }
  SignalWatch signals;

  EXPECT_EQ(signals.take(), RunRequest::nothing);
}

// No handler runs where products are computed: their stack pointer is no stack's.
TEST_F(Signals, ComputingThreadsHaveThemBlocked) {
  {
    const SignalWatch signals;
    EXPECT_EQ(blocked(), watched.size());
    std::size_t elsewhere = 0;
    std::thread([&] { elsewhere = blocked(); }).join();
    EXPECT_EQ(elsewhere, watched.size());
  }
  EXPECT_EQ(blocked(), 0);
}

}  // namespace
}  // namespace trireme
