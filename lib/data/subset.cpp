#include "lib/data/subset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// Of each source; they add up to `samples`.
std::vector<std::int64_t> counts_of(const std::vector<std::int64_t>& windows,
                                    const std::vector<double>& shares, std::int64_t samples) {
  const auto sources = windows.size();
  std::vector<std::int64_t> counts(sources, 0);
  for (std::int64_t left = samples; left > 0;) {
    double open = 0;
    for (std::size_t s = 0; s < sources; ++s)
      if (counts[s] < windows[s]) open += shares[s];
    const auto now = static_cast<double>(left);
    std::size_t behind = sources;  // the open source that rounding down leaves the most without
    double most = -1;
    const auto before = left;
    for (std::size_t s = 0; s < sources; ++s) {
      const auto room = windows[s] - counts[s];
      if (room == 0) continue;
      const double due = now * (shares[s] / open);
      const auto more = std::min({room, left, static_cast<std::int64_t>(due)});
      counts[s] += more;
      left -= more;
      if (more < room && due - static_cast<double>(more) > most) {
        most = due - static_cast<double>(more);
        behind = s;
      }
    }
    if (left == before) {
      ++counts[behind];
      --left;
    }
  }
  return counts;
}

}  // namespace

Subset::Subset(std::vector<std::int64_t> windows, std::vector<double> shares, std::int64_t samples)
    : first_window_{0}, first_sample_{0} {
  if (shares.empty()) shares.assign(windows.begin(), windows.end());
  expect(shares.size() == windows.size(), "a share for each source");
  const auto all = std::accumulate(windows.begin(), windows.end(), std::int64_t{0});
  const auto counts = counts_of(windows, shares, std::min(samples, all));
  for (std::size_t s = 0; s < windows.size(); ++s) {
    first_window_.push_back(first_window_.back() + windows[s]);
    first_sample_.push_back(first_sample_.back() + counts[s]);
  }
}

std::int64_t Subset::operator()(std::int64_t k) const {
  expect(k >= 0 && k < samples(), "one of the samples");
  const auto after = std::ranges::upper_bound(first_sample_, k);
  const auto s = static_cast<std::size_t>(after - first_sample_.begin() - 1);
  const auto windows = first_window_[s + 1] - first_window_[s];
  const auto samples = first_sample_[s + 1] - first_sample_[s];
  // The middle of its part of the source.
  const auto twice = static_cast<unsigned __int128>(2 * (k - first_sample_[s]) + 1);
  return first_window_[s] + static_cast<std::int64_t>(twice * static_cast<std::uint64_t>(windows) /
                                                      static_cast<std::uint64_t>(2 * samples));
}

}  // namespace trireme
