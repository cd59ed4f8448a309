#pragma once
// Finds hosts that are slower than the others. In a step, ranks wait for the slowest one, so the
// time of a step is about equal on all ranks. The comparison therefore uses only the time in which
// a rank works itself.
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/timesheet.hpp"

namespace trireme {

// The tasks in which a rank works itself. In all other tasks of a step, it waits for other ranks or
// for its device.
inline constexpr std::array own_tasks{Task::reading, Task::forward, Task::backward,
                                      Task::optimizer};

// The time of one rank between two progress lines, in seconds.
struct RankWork {
  std::array<double, own_tasks.size()> own{};
  double steps = 0;  // in all tasks of steps, with waits

  double all_own() const;
};
// Returns the time between two results of Timesheet::seconds().
RankWork work_between(const std::array<double, task_count>& before,
                      const std::array<double, task_count>& after);

// Watches the work of all ranks of a run.
class Stragglers {
 public:
  static constexpr std::int64_t patience = 20;  // progress lines in a row
  static constexpr double above = 1.2;          // times the median
  static constexpr double share = 0.05;         // of the time of steps that must be lost

  // A rank. Ranks of one stage of the pipeline have equal work and are compared with each other.
  struct Member {
    std::string host;
    int stage = 0;
  };
  explicit Stragglers(std::vector<Member> ranks)
      : ranks_(std::move(ranks)), streaks_(ranks_.size()) {}

  std::size_t ranks() const { return ranks_.size(); }
  // Returns a warning for each host that was slow in `patience` lines in a row up to this one. A
  // host is slow in a line if one of its ranks works at least `above` times the median of its
  // stage, and more than `share` of the time is lost. Each host is named once. Of an even number of
  // ranks, the lower of the two medians counts, so that one of two ranks can be slow.
  std::vector<std::string> after(std::span<const RankWork> by_rank);

 private:
  // A sequence of lines in which a rank was slow, with the sums over these lines.
  struct Streak {
    std::int64_t lines = 0;
    RankWork work, median;
  };
  std::string text_of(std::size_t rank) const;

  std::vector<Member> ranks_;
  std::vector<Streak> streaks_;  // by rank
  std::set<std::string> named_;
};

}  // namespace trireme
