#include "lib/base/timesheet.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace trireme {
namespace {

using namespace std::chrono_literals;

double of(const std::array<double, task_count>& s, Task t) {
  return s[static_cast<std::size_t>(t)];
}

TEST(Timesheet, TasksAddUpToTheTimeSinceTheStart) {
  const auto begin = Timesheet::Clock::now();
  Timesheet::start(begin);
  {
    const TaskScope planned(Task::backward);
    std::this_thread::sleep_for(2ms);
  }
  Timesheet::turn_to(Task::other);
  {
    const TaskScope forward(Task::forward);
    std::this_thread::sleep_for(3ms);
    {
      const TaskScope gather(Task::gather);
      std::this_thread::sleep_for(4ms);
    }
  }
  const auto before = Timesheet::Clock::now();
  const auto s = Timesheet::seconds();
  const auto after = Timesheet::Clock::now();
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  // Sums of durations that are whole nanoseconds, each rounded once to a double: far below 1 ns.
  EXPECT_GE(sum, std::chrono::duration<double>(before - begin).count() - 1e-9);
  EXPECT_LE(sum, std::chrono::duration<double>(after - begin).count() + 1e-9);
  EXPECT_GE(of(s, Task::starting), 2e-3);
  EXPECT_GE(of(s, Task::forward), 3e-3);
  EXPECT_GE(of(s, Task::gather), 4e-3);
  EXPECT_EQ(of(s, Task::backward), 0);
}

TEST(Timesheet, WhatIsWithinAnEvaluationIsTheEvaluation) {
  Timesheet::start();
  Timesheet::turn_to(Task::other);
  {
    const TaskScope evaluating(Task::evaluating);
    const TaskScope forward(Task::forward);
    EXPECT_EQ(Timesheet::now_at(), Task::evaluating);
  }
  EXPECT_EQ(Timesheet::now_at(), Task::other);
  EXPECT_EQ(of(Timesheet::seconds(), Task::forward), 0);
}

}  // namespace
}  // namespace trireme
