#pragma once
// Which window of which file a sample is: a pure function of the sample's number, so that a run
// restarts at any step and ranks need not communicate. Its memory does not grow with the data.
#include <array>
#include <cstdint>
#include <vector>

#include "lib/data/config.hpp"

namespace trireme {

// A bijection of [0, size) chosen by `key`: an unbalanced Feistel network on the smallest power of
// two that holds size, walked until it lands inside (Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002). Of few elements, whose network would have halves of one bit and
// favour some bijections, a shuffle.
class Permutation {
 public:
  static constexpr std::int64_t few = 8;

  Permutation(std::int64_t size, std::uint64_t key);

  // Throws Error for an element that there is not.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t scramble(std::uint64_t) const;

  std::uint64_t size_, key_;
  int low_bits_, high_bits_;
  std::array<std::uint8_t, few> places_{};  // of the shuffle
};

// Distributes samples over files by share: each file's count among the first n samples is within
// log2(files) + 1 of its share of n. Halves the list of files recursively and splits the samples in
// proportion: O(log files), exact in integers.
class Interleave {
 public:
  // Positive shares, scaled by their sum. Throws Error when one is not finite and positive.
  explicit Interleave(const std::vector<double>& shares);

  struct Turn {
    std::int32_t file = 0;
    std::int64_t index = 0;  // samples of this file before this one
  };
  Turn operator()(std::int64_t sample) const;

 private:
  std::vector<std::uint64_t> sums_;  // sums_[f]: shares of the files before f
};

struct Window {
  std::int64_t epoch = 0;  // completed epochs of this file
  std::int32_t file = 0;
  std::int64_t index = 0;  // window of that file

  bool operator==(const Window&) const = default;
};

// The windows of several files in the order of training. Without shares, each window of all files
// comes once an epoch. With shares, each file has its own epochs.
class WindowSequence {
 public:
  // `windows`: windows of each file, at least one each. `shares` empty or one a file.
  WindowSequence(std::vector<std::int64_t> windows, const std::vector<double>& shares, SampleOrder,
                 std::uint64_t seed);

  // Windows of all files together.
  std::int64_t samples_per_epoch() const { return first_window_.back(); }
  // Throws Error for a negative number.
  Window operator()(std::int64_t sample) const;
  // Has an epoch, or one of a file, an order that is a shuffle of few?
  bool shuffles_few() const;

 private:
  std::int64_t place(std::int64_t index, std::int64_t size, std::int64_t epoch,
                     std::int32_t file) const;

  std::vector<std::int64_t> first_window_;  // of each file among all windows, and the end
  std::vector<Interleave> interleave_;      // none or one
  SampleOrder order_;
  std::uint64_t seed_;
};

}  // namespace trireme
