#pragma once
// Which samples stand for all of a dataset, where an evaluation reads no more: the same ones each
// time, on any grid and after a restart.
#include <cstdint>
#include <vector>

namespace trireme {

// `samples` of all windows, at most as many as there are, evenly over each file. A file has its
// share of them, or all its windows where these are fewer; what is left goes to the others in
// proportion. Of all windows, sample k is window k.
class Subset {
 public:
  // `windows`: of each file. `shares` of the files, above 0; empty: by their windows.
  Subset(std::vector<std::int64_t> windows, std::vector<double> shares, std::int64_t samples);

  std::int64_t samples() const { return first_sample_.back(); }
  // The number of sample k's window among those of all files.
  std::int64_t operator()(std::int64_t k) const;

 private:
  std::vector<std::int64_t> first_window_, first_sample_;  // of each file, and the end
};

}  // namespace trireme
