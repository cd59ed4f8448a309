#pragma once
// Record of the main thread's time by task. Exactly one task is current at any moment, so the times
// of all tasks add up to the time since the start. The clock is read only when the task changes.
// Only the main thread may use the Timesheet.
//
// All times are host times. On a device that runs asynchronously, `forward`, `backward` and
// `optimizer` measure the time to enqueue work, and `device` measures the wait for its completion.
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace trireme {

// Tasks of the main thread. In the tasks from `gather` to `agreeing`, the thread waits for other
// ranks.
enum class Task : std::uint8_t {
  starting,  // until the first step
  reading,   // reading samples
  forward,
  backward,
  device,     // waiting for the device
  gather,     // all-gather of weights
  scatter,    // reduce-scatter of gradients
  exchange,   // attention heads, keys and values, tokens of experts
  pipeline,   // activations and gradients of other pipeline stages
  agreeing,   // norms, losses, decisions; here a rank waits for the slowest one
  optimizer,  // optimizer step and gradient norm
  evaluating,
  sampling,
  saving,
  other
};
inline constexpr std::size_t task_count = 15;
std::string_view name_of(Task);
// Returns true for tasks whose time includes all nested tasks. A TaskScope inside such a task has
// no effect.
constexpr bool covers(Task t) {
  // Startup may plan a step before the run. The tasks of that step do not count.
  return t == Task::starting || t == Task::evaluating || t == Task::sampling || t == Task::saving;
}

// The process-wide record of time by task.
class Timesheet {
 public:
  using Clock = std::chrono::steady_clock;

  // Resets all times and makes `starting` the current task.
  static void start(Clock::time_point = Clock::now());
  static void turn_to(Task t) { turn_to(t, Clock::now()); }
  static Task now_at() { return now_; }
  // Returns the seconds spent on each task. The times add up to the time since start().
  static std::array<double, task_count> seconds();

 private:
  static void turn_to(Task, Clock::time_point);

  inline static Task now_ = Task::other;
  inline static Clock::time_point since_ = Clock::now();
  inline static std::array<Clock::duration, task_count> spent_{};
};

// A scope in which the given task is current. Afterwards, the previous task is current again. The
// scope has no effect inside a task for which covers() returns true.
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
