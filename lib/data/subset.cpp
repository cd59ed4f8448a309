#include "lib/data/subset.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// Returns the number of samples from each file. The numbers add up to `samples`. A file that has
// fewer windows than its due share gives all of them. Each other file gives its due share, rounded
// down, and the files that lose most by rounding give one more.
std::vector<std::int64_t> counts_of(const std::vector<std::int64_t>& windows,
                                    const std::vector<double>& shares, std::int64_t samples) {
  std::vector<std::int64_t> counts(windows.size(), 0);
  std::vector<std::size_t> open(windows.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  std::int64_t left = samples;
  std::vector<double> due(windows.size());
  for (std::size_t before = open.size() + 1; open.size() < before;) {
    before = open.size();
    double all = 0;
    for (const auto s : open) all += shares[s];
    for (const auto s : open) due[s] = static_cast<double>(left) * (shares[s] / all);
    std::erase_if(open, [&](std::size_t s) {
      if (due[s] < static_cast<double>(windows[s])) return false;
      counts[s] = windows[s];
      left -= windows[s];
      return true;
    });
  }
  for (const auto s : open) {
    counts[s] = std::min(left, static_cast<std::int64_t>(due[s]));
    left -= counts[s];
  }
  std::ranges::stable_sort(open, std::greater{},
                           [&](std::size_t s) { return due[s] - static_cast<double>(counts[s]); });
  for (std::size_t i = 0; i < open.size() && left > 0; ++i, --left) ++counts[open[i]];
  return counts;
}

}  // namespace

Subset::Subset(std::vector<std::int64_t> windows, std::vector<double> shares, std::int64_t samples)
    : first_window_{0}, first_sample_{0} {
  if (shares.empty()) shares.assign(windows.begin(), windows.end());
  expect(shares.size() == windows.size(), "a share for each file");
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
  // Takes the middle of the sample's part of the file.
  const auto twice = static_cast<unsigned __int128>(2 * (k - first_sample_[s]) + 1);
  return first_window_[s] + static_cast<std::int64_t>(twice * static_cast<std::uint64_t>(windows) /
                                                      static_cast<std::uint64_t>(2 * samples));
}

}  // namespace trireme
