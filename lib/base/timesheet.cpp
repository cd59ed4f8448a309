#include "lib/base/timesheet.hpp"

#include <utility>

namespace trireme {

std::string_view name_of(Task t) {
  constexpr std::array<std::string_view, task_count> names = {
      "starting",  "reading",    "forward",  "backward", "device",
      "gather",    "scatter",    "exchange", "pipeline", "agreeing",
      "optimizer", "evaluating", "sampling", "saving",   "other"};
  return names[static_cast<std::size_t>(t)];
}

void Timesheet::start(Clock::time_point at) {
  spent_ = {};
  since_ = at;
  now_ = Task::starting;
}

void Timesheet::turn_to(Task t, Clock::time_point now) {
  spent_[static_cast<std::size_t>(now_)] += now - std::exchange(since_, now);
  now_ = t;
}

std::array<double, task_count> Timesheet::seconds() {
  turn_to(now_, Clock::now());
  std::array<double, task_count> all{};
  for (std::size_t i = 0; i < task_count; ++i)
    all[i] = std::chrono::duration<double>(spent_[i]).count();
  return all;
}

}  // namespace trireme
