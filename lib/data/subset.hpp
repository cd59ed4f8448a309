#pragma once
// A fixed subset of the samples that represents the whole dataset in evaluations. The subset is the
// same in every evaluation, on every grid and after a restart.
#include <cstdint>
#include <vector>

namespace trireme {

// A selection of `samples` windows, evenly spaced in each file. Each file contributes in proportion
// to its share. If a file has fewer windows than its share, all its windows are used, and the
// remaining samples are distributed over the other files in proportion. If there are fewer windows
// than `samples`, all windows are used in order.
class Subset {
 public:
  // `windows` is the number of windows of each file. `shares` has one positive value per file. If
  // it is empty, the shares are proportional to `windows`.
  Subset(std::vector<std::int64_t> windows, std::vector<double> shares, std::int64_t samples);

  std::int64_t samples() const { return first_sample_.back(); }
  // Returns the index of sample k's window among the windows of all files.
  std::int64_t operator()(std::int64_t k) const;

 private:
  std::vector<std::int64_t> first_window_,
      first_sample_;  // first index of each file, and the total
};

}  // namespace trireme
