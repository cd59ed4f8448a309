#pragma once
// Maps sample numbers to windows of files. The mapping is a pure function of the sample number, so
// that a run can restart at any step and ranks need not communicate. The memory that it needs does
// not grow with the data.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/data/config.hpp"

namespace trireme {

// A pseudo-random permutation of [0, size) chosen by `key`. It is an unbalanced Feistel network on
// the smallest power of two that is at least `size`, applied repeatedly until the result is below
// `size` (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). If there are at
// most `few` elements, they are shuffled instead, because a network with one-bit halves would favor
// some permutations.
class Permutation {
 public:
  static constexpr std::int64_t few = 8;

  Permutation(std::int64_t size, std::uint64_t key);

  // Returns the image of `i`. Throws Error unless 0 <= i < size.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t scramble(std::uint64_t) const;

  std::uint64_t size_, key_;
  int low_bits_, high_bits_;
  // Images of all elements, used if there are at most `few` of them.
  std::array<std::uint8_t, few> places_{};
};

// Distributes samples over files by share. Among the first n samples, each file's count is within
// log2(files) + 1 of its share of n. The list of files is halved recursively, and the samples are
// split in proportion. This takes O(log files) operations and uses exact integer arithmetic.
class Interleave {
 public:
  // `shares` must be positive and need not sum to 1. Throws Error if a share is not finite and
  // positive.
  explicit Interleave(const std::vector<double>& shares);

  // The file that one sample is taken from, and the number of that file's samples before it.
  struct Turn {
    std::int32_t file = 0;
    std::int64_t index = 0;
  };
  // Returns the file and index of a sample.
  Turn operator()(std::int64_t sample) const;
  // Returns how many of the first `samples` samples are taken from a file.
  std::int64_t taken(std::int64_t samples, std::int32_t file) const;

 private:
  std::vector<std::uint64_t> sums_;  // sums_[f]: sum of the shares of the files before f
};

// A window of a file, in one epoch.
struct Window {
  // Number of epochs of this file completed before this one.
  std::int64_t epoch = 0;
  std::int32_t file = 0;
  // Index of the window in the file.
  std::int64_t index = 0;

  bool operator==(const Window&) const = default;
};

// Which files samples are taken from, and in which shares, from one sample on. Files have numbers
// that never change during a run, because they choose the order of a file's windows.
struct DataPhase {
  std::int64_t first_sample = 0;
  std::vector<std::int32_t> files;
  // Relative share of each of these files. If empty, the windows of all files are shuffled
  // together, and the phase must be the only one.
  std::vector<double> shares;
  bool operator==(const DataPhase&) const = default;
};

// The order in which windows of several files are read. Without shares, each window of all files
// occurs once per epoch. With shares, epochs are counted separately for each file. A file that
// several phases use continues in each of them at the window after its last one.
class WindowSequence {
 public:
  // One file: its number, and its number of windows, which must be at least 1.
  struct File {
    std::int32_t number = 0;
    std::int64_t windows = 0;
  };
  // The phases must be in ascending order of first_sample, and the first one must begin at sample
  // 0. A phase may name files that are not in `files`, unless a window of its samples is requested.
  WindowSequence(std::span<const File>, std::vector<DataPhase>, SampleOrder, std::uint64_t seed);

  // Returns the number of windows of all files together.
  std::int64_t samples_per_epoch() const { return first_window_.back(); }
  // Returns the number of windows of the phase's files together.
  std::int64_t windows_of(const DataPhase&) const;
  // Returns the window of a sample. Window::file is an index into `files`. Throws Error if `sample`
  // is negative, or if its file is not in `files`.
  Window operator()(std::int64_t sample) const;
  // Returns the phase that a sample belongs to.
  const DataPhase& phase_of(std::int64_t sample) const { return segment_of(sample).phase; }
  // Returns true if the order is random and an epoch has at most Permutation::few windows. With
  // shares, returns true if this holds for an epoch of any file.
  bool shuffles_few() const;

 private:
  struct Segment {
    DataPhase phase;
    std::optional<Interleave> interleave;  // absent without shares
    std::vector<std::int64_t> taken;       // windows of each of the phase's files before the phase
  };
  const Segment& segment_of(std::int64_t sample) const;
  std::int64_t place(std::int64_t index, std::int64_t size, std::int64_t epoch,
                     std::int32_t file) const;

  std::vector<std::int64_t> first_window_;  // index of each file's first window, and the total
  std::vector<std::int32_t> index_;         // by number: index of the file, or -1
  std::vector<Segment> segments_;
  SampleOrder order_;
  std::uint64_t seed_;
};

}  // namespace trireme
