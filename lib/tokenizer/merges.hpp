#pragma once
// Merging the pairs of a word's tokens, lowest rank first, as byte-pair encoding does
// (Sennrich et al. 2016).
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

class Merges {
 public:
  struct Result {
    std::int32_t rank = none, id = 0;
  };
  static constexpr std::int32_t none = 0x7fffffff;

  explicit Merges(std::size_t count);
  // A later merge of the same pair takes the place of the earlier one.
  void add(std::int32_t left, std::int32_t right, Result);
  // rank none: the pair is not merged.
  Result find(std::int32_t left, std::int32_t right) const {
    const auto key = key_of(left, right);
    for (std::size_t i = place(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].result;
      if (slots_[i].key == empty) return {};
    }
  }

  // Merges until no pair has a rank: at each turn the pair of the lowest rank and, of those, the
  // leftmost. In n log n time.
  void apply(std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = empty;
    Result result;
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15U >> shift_);
  }
  void apply_to_short(std::vector<std::int32_t>& ids) const;
  void apply_to_long(std::vector<std::int32_t>& ids) const;

  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

}  // namespace trireme
