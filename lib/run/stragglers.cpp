#include "lib/run/stragglers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/run/timing.hpp"

namespace trireme {

double RankWork::all_own() const {
  return std::accumulate(own.begin(), own.end(), 0.0);
}

static RankWork& operator+=(RankWork& a, const RankWork& b) {
  for (std::size_t t = 0; t < own_tasks.size(); ++t) a.own[t] += b.own[t];
  a.steps += b.steps;
  return a;
}

RankWork work_between(const std::array<double, task_count>& before,
                      const std::array<double, task_count>& after) {
  const auto seconds = [&](Task t) {
    return after[static_cast<std::size_t>(t)] - before[static_cast<std::size_t>(t)];
  };
  RankWork work;
  std::ranges::transform(own_tasks, work.own.begin(), seconds);
  for (std::size_t t = 0; t < task_count; ++t)
    if (const auto task = static_cast<Task>(t); !covers(task) && task != Task::other)
      work.steps += seconds(task);
  return work;
}

// Returns the median or, of an even number of values, the lower one of the two.
static double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns the median of each task over the ranks.
static RankWork medians(std::span<const RankWork> work) {
  RankWork median;
  for (std::size_t t = 0; t < own_tasks.size(); ++t) {
    std::vector<double> values;
    for (const auto& w : work) values.push_back(w.own[t]);
    median.own[t] = lower_median(std::move(values));
  }
  return median;
}

std::vector<std::string> Stragglers::after(std::span<const RankWork> by_rank) {
  std::map<int, std::vector<RankWork>> stages;
  for (std::size_t r = 0; r < ranks_.size(); ++r) stages[ranks_[r].stage].push_back(by_rank[r]);
  struct Usual {
    double own;
    RankWork by_task;
  };
  std::map<int, Usual> usual;
  for (const auto& [stage, work] : stages) {
    std::vector<double> own;
    for (const auto& w : work) own.push_back(w.all_own());
    usual[stage] = {lower_median(std::move(own)), medians(work)};
  }
  std::map<std::string, std::size_t> slowest;  // rank, by host
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto& of_stage = usual[ranks_[r].stage];
    const auto own = by_rank[r].all_own(), lost = own - of_stage.own;
    auto& streak = streaks_[r];
    if (own < above * of_stage.own || lost <= share * by_rank[r].steps) {
      streak = {};
      continue;
    }
    ++streak.lines;
    streak.work += by_rank[r];
    streak.median += of_stage.by_task;
    const auto& host = ranks_[r].host;
    if (streak.lines < patience || named_.contains(host)) continue;
    const auto [found, is_new] = slowest.try_emplace(host, r);
    if (!is_new && streak.work.all_own() > streaks_[found->second].work.all_own())
      found->second = r;
  }
  std::vector<std::string> texts;
  for (const auto& [host, rank] : slowest) {
    named_.insert(host);
    texts.push_back(text_of(rank));
  }
  return texts;
}

std::string Stragglers::text_of(std::size_t rank) const {
  const auto& [lines, work, median] = streaks_[rank];
  const auto lost = work.all_own() - median.all_own();
  constexpr double notable = 0.1;  // of the lost time
  std::vector<std::string> tasks;
  for (std::size_t t = 0; t < own_tasks.size(); ++t)
    if (work.own[t] - median.own[t] > notable * lost)
      tasks.push_back(fmt::format("{} {:.3g} s instead of {:.3g} s", trireme::text_of(own_tasks[t]),
                                  work.own[t], median.own[t]));
  return fmt::format(
      "host {} is slow: in each of the last {} progress lines, its rank {} worked at least {} "
      "times as long as the median rank of its pipeline stage: {}. Look for other processes, a "
      "lower clock rate or a slow disk on this host, or exclude it",
      ranks_[rank].host, lines, rank, above, fmt::join(tasks, ", "));
}

}  // namespace trireme
