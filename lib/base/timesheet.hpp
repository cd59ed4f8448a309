#pragma once
// What the main thread spends its time on: at each moment one task, so that the tasks' times add up
// to the time since the start. A clock is read only where the task changes. Main thread only.
//
// The clock is the host's. On a device that works behind the host, forward, backward and optimizer
// are the time to put work on its queues, and the work itself is waited for as `device`.
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class Task : std::uint8_t {
  starting,   // before the first step
  reading,    // samples
  forward,    // computing
  backward,   // computing
  device,     // waiting for it
  gather,     // from here to agreeing: waiting for other ranks; weights
  scatter,    // gradients
  exchange,   // heads, keys and values, tokens of experts
  pipeline,   // activations and gradients of other stages
  agreeing,   // norms, losses and decisions: where ranks wait for the slowest
  optimizer,  // and the gradients' norm
  evaluating,
  sampling,
  saving,
  other
};
inline constexpr std::size_t task_count = 15;
std::string_view name_of(Task);
// Is what happens within it all called by its name?
constexpr bool covers(Task t) {
  // What is started may be planned first, by a step that is not one of the run.
  return t == Task::starting || t == Task::evaluating || t == Task::sampling || t == Task::saving;
}

class Timesheet {
 public:
  using Clock = std::chrono::steady_clock;

  static void start(Clock::time_point = Clock::now());
  static void turn_to(Task t) { turn_to(t, Clock::now()); }
  static Task now_at() { return now_; }
  // By task, since the start; they add up to the time until now.
  static std::array<double, task_count> seconds();

 private:
  static void turn_to(Task, Clock::time_point);

  inline static Task now_ = Task::other;
  inline static Clock::time_point since_ = Clock::now();
  inline static std::array<Clock::duration, task_count> spent_{};
};

// From its construction to its destruction, unless within a task that covers others.
class TaskScope {
 public:
  explicit TaskScope(Task t) : before_(Timesheet::now_at()) {
    if (!covers(before_)) Timesheet::turn_to(t);
  }
  ~TaskScope() {
    if (!covers(before_)) Timesheet::turn_to(before_);
  }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

 private:
  Task before_;
};

}  // namespace trireme
