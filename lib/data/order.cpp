#include "lib/data/order.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
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

std::int64_t Interleave::taken(std::int64_t samples, std::int32_t file) const {
  const auto wanted = static_cast<std::size_t>(file);
  std::size_t begin = 0, end = sums_.size() - 1;
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    const std::int64_t left =
        scaled(samples, sums_[middle] - sums_[begin], sums_[end] - sums_[begin]);
    if (wanted < middle) {
      samples = left;
      end = middle;
    } else {
      samples -= left;
      begin = middle;
    }
  }
  return samples;
}

WindowSequence::WindowSequence(std::span<const File> files, std::vector<DataPhase> phases,
                               SampleOrder order, std::uint64_t seed)
    : first_window_{0}, order_(order), seed_(seed) {
  expect(!files.empty(), "there is a file to train on");
  for (const auto& [number, windows] : files) {
    expect(windows > 0, "each file has a window");
    first_window_.push_back(first_window_.back() + windows);
    index_.resize(std::max(index_.size(), static_cast<std::size_t>(number) + 1), -1);
    index_[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(first_window_.size()) - 2;
  }
  expect(!phases.empty() && phases[0].first_sample == 0, "a phase contains the first sample");
  std::map<std::int32_t, std::int64_t> taken;  // by number of a file
  for (std::size_t i = 0; i < phases.size(); ++i) {
    auto& phase = phases[i];
    Segment segment;
    if (phase.shares.empty())
      expect(phases.size() == 1, "without shares, there is one phase");
    else
      segment.interleave.emplace(phase.shares);
    for (std::size_t f = 0; f < phase.files.size(); ++f) {
      auto& before = taken[phase.files[f]];
      segment.taken.push_back(before);
      if (i + 1 == phases.size()) continue;
      const auto samples = phases[i + 1].first_sample - phase.first_sample;
      expect(samples >= 0, "phases are in order");
      before += segment.interleave->taken(samples, static_cast<std::int32_t>(f));
    }
    segment.phase = std::move(phase);
    segments_.push_back(std::move(segment));
  }
}

std::int64_t WindowSequence::place(std::int64_t index, std::int64_t size, std::int64_t epoch,
                                   std::int32_t file) const {
  if (order_ == SampleOrder::sequential) return index;
  // Each file's number is its salt, so that files of the same size have different permutations.
  const std::uint64_t key = hash64(hash64(seed_, "data order"), static_cast<std::uint64_t>(epoch),
                                   static_cast<std::uint64_t>(file));
  return Permutation(size, key)(index);
}

bool WindowSequence::shuffles_few() const {
  if (order_ == SampleOrder::sequential) return false;
  if (!segments_[0].interleave) return samples_per_epoch() <= Permutation::few;
  return std::ranges::adjacent_find(first_window_, [](auto begin, auto end) {
           return end - begin <= Permutation::few;
         }) != first_window_.end();
}

const WindowSequence::Segment& WindowSequence::segment_of(std::int64_t sample) const {
  require(sample >= 0, "there is no sample {}: samples are numbered from 0 to 2^63 - 1", sample);
  const auto after = std::ranges::upper_bound(
      segments_, sample, {}, [](const Segment& s) { return s.phase.first_sample; });
  return *std::prev(after);
}

std::int64_t WindowSequence::windows_of(const DataPhase& phase) const {
  std::int64_t all = 0;
  for (const auto number : phase.files) {
    const auto n = static_cast<std::size_t>(number);
    const auto file = n < index_.size() ? index_[n] : -1;
    if (file < 0) continue;
    const auto f = static_cast<std::size_t>(file);
    all += first_window_[f + 1] - first_window_[f];
  }
  return all;
}

Window WindowSequence::operator()(std::int64_t sample) const {
  const auto& segment = segment_of(sample);
  if (segment.interleave) {
    const auto turn = (*segment.interleave)(sample - segment.phase.first_sample);
    const auto i = static_cast<std::size_t>(turn.file);
    const auto number = static_cast<std::size_t>(segment.phase.files[i]);
    const std::int32_t file = number < index_.size() ? index_[number] : -1;
    require(file >= 0, "sample {} is from a token file that the deck no longer contains", sample);
    const auto f = static_cast<std::size_t>(file);
    const std::int64_t size = first_window_[f + 1] - first_window_[f];
    const std::int64_t index = segment.taken[i] + turn.index, epoch = index / size;
    return {epoch, file, place(index % size, size, epoch, segment.phase.files[i])};
  }
  const std::int64_t size = samples_per_epoch(), epoch = sample / size;
  const std::int64_t window = place(sample % size, size, epoch, 0);
  const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto file = static_cast<std::int32_t>(after - first_window_.begin() - 1);
  return {epoch, file, window - first_window_[static_cast<std::size_t>(file)]};
}

}  // namespace trireme
