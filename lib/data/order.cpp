#include "lib/data/order.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/rng.hpp"

namespace trireme {

namespace {

constexpr int feistel_rounds = 8;
constexpr double share_scale = 0x1p40;

constexpr std::uint64_t low_mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

// Returns floor(a * b / c) without overflow, for a < 2^63 and b <= c.
std::int64_t scaled(std::int64_t a, std::uint64_t b, std::uint64_t c) {
  return static_cast<std::int64_t>(static_cast<unsigned __int128>(a) * b / c);
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t key)
    : size_(static_cast<std::uint64_t>(size)), key_(key) {
  expect(size > 0, "a permutation has elements");
  const int bits = std::bit_width(size_ - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  if (size > few) return;
  // Fisher-Yates shuffle: element i changes places with one up to itself.
  for (std::uint64_t i = 0; i < size_; ++i) {
    places_[i] = static_cast<std::uint8_t>(i);
    std::swap(places_[i], places_[hash64(key, i) % (i + 1)]);
  }
}

std::uint64_t Permutation::scramble(std::uint64_t x) const {
  std::uint64_t low = x & low_mask(low_bits_), high = x >> low_bits_;
  for (std::uint64_t round = 0; round < feistel_rounds; round += 2) {
    high ^= hash64(key_, round, low) & low_mask(high_bits_);
    low ^= hash64(key_, round + 1, high) & low_mask(low_bits_);
  }
  return high << low_bits_ | low;
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  auto x = static_cast<std::uint64_t>(i);
  require(x < size_, "element {} does not exist: a permutation of {} elements is numbered from 0",
          i, size_);  // the loop below would not end
  if (std::cmp_less_equal(size_, few)) return places_[x];
  do x = scramble(x);
  while (x >= size_);
  return static_cast<std::int64_t>(x);
}

Interleave::Interleave(const std::vector<double>& shares) : sums_{0} {
  double sum = 0;
  for (std::size_t f = 0; f < shares.size(); ++f) {
    require(std::isfinite(shares[f]) && shares[f] > 0,
            "data.weights[{}] is {}, but must be above zero; to leave a file out, remove it from "
            "data.path",
            f, shares[f]);
    sum += shares[f];
  }
  for (double share : shares) {
    const double scaled_share = std::max(1.0, std::round(share / sum * share_scale));
    sums_.push_back(sums_.back() + static_cast<std::uint64_t>(scaled_share));
  }
}

Interleave::Turn Interleave::operator()(std::int64_t sample) const {
  std::size_t begin = 0, end = sums_.size() - 1;
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    const std::uint64_t left = sums_[middle] - sums_[begin], all = sums_[end] - sums_[begin];
    const std::int64_t before = scaled(sample, left, all);
    if (scaled(sample + 1, left, all) > before) {
      sample = before;
      end = middle;
    } else {
      sample -= before;
      begin = middle;
    }
  }
  return {static_cast<std::int32_t>(begin), sample};
}

WindowSequence::WindowSequence(std::vector<std::int64_t> windows, const std::vector<double>& shares,
                               SampleOrder order, std::uint64_t seed)
    : first_window_{0}, order_(order), seed_(seed) {
  expect(!windows.empty(), "there is a file to train on");
  for (auto n : windows) {
    expect(n > 0, "each file has a window");
    first_window_.push_back(first_window_.back() + n);
  }
  require(shares.empty() || shares.size() == windows.size(),
          "data.weights has {} values for {} files: give one value per file", shares.size(),
          windows.size());
  if (!shares.empty()) interleave_.emplace_back(shares);
}

std::int64_t WindowSequence::place(std::int64_t index, std::int64_t size, std::int64_t epoch,
                                   std::int32_t file) const {
  if (order_ == SampleOrder::sequential) return index;
  // Each file has its own salt, so that files of the same size have different permutations.
  const std::uint64_t key = hash64(hash64(seed_, "data order"), static_cast<std::uint64_t>(epoch),
                                   static_cast<std::uint64_t>(file));
  return Permutation(size, key)(index);
}

bool WindowSequence::shuffles_few() const {
  if (order_ == SampleOrder::sequential) return false;
  if (interleave_.empty()) return samples_per_epoch() <= Permutation::few;
  return std::ranges::adjacent_find(first_window_, [](auto begin, auto end) {
           return end - begin <= Permutation::few;
         }) != first_window_.end();
}

Window WindowSequence::operator()(std::int64_t sample) const {
  require(sample >= 0, "there is no sample {}: samples are numbered from 0 to 2^63 - 1", sample);
  if (!interleave_.empty()) {
    const auto turn = interleave_.front()(sample);
    const auto f = static_cast<std::size_t>(turn.file);
    const std::int64_t size = first_window_[f + 1] - first_window_[f];
    const std::int64_t epoch = turn.index / size;
    return {epoch, turn.file, place(turn.index % size, size, epoch, turn.file)};
  }
  const std::int64_t size = samples_per_epoch(), epoch = sample / size;
  const std::int64_t window = place(sample % size, size, epoch, 0);
  const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto file = static_cast<std::int32_t>(after - first_window_.begin() - 1);
  return {epoch, file, window - first_window_[static_cast<std::size_t>(file)]};
}

}  // namespace trireme
