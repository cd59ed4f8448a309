#include "lib/calibrate/stopwatch.hpp"

#include <algorithm>
#include <chrono>

#include "lib/base/seconds.hpp"

namespace trireme {

double Stopwatch::seconds(Queue queue, const std::function<void(int)>& put) const {
  int next = 0;
  const auto batch = [&](int calls) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) put(next++);
    const auto last = backend_.record(queue);
    while (!backend_.done(last)) {
    }
    return seconds_since(begin) / calls;
  };
  batch(1);  // kernels are created at their first use
  std::vector<double> times{batch(1)};
  // Ranks must make the same number of calls, which the slowest rank determines.
  double once = times[0];
  world_.all_reduce_max({&once, 1});
  constexpr int batches = 3;
  const int calls = std::clamp(static_cast<int>(least_ / batches / once), 1, 1000);
  if (calls > 1) times.clear();  // a call among others is shorter than a single call
  double lasted = once * static_cast<double>(times.size());
  for (int i = 0; i < batches && (i == 0 || lasted < least_); ++i) {
    times.push_back(batch(calls));
    lasted += once * calls;
  }
  // Other work on the machine only adds time, so the shortest batch counts.
  double sum = std::ranges::min(times);
  world_.all_reduce({&sum, 1});
  return sum / world_.size();
}

double Stopwatch::seconds(const std::function<void()>& call) const {
  return seconds(Queue::compute, [&](int) { call(); });
}

}  // namespace trireme
