#pragma once
// The merge step of byte-pair encoding (Sennrich et al. 2016). Adjacent tokens of a word are merged
// pair by pair, in ascending order of the pairs' ranks.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

// Hash table that maps a pair of tokens to the merged token and its rank.
class Merges {
 public:
  // Rank of a merge, and id of the merged token.
  struct Result {
    std::int32_t rank = none, id = 0;
  };
  static constexpr std::int32_t none = 0x7fffffff;

  // `count` is the maximum number of merges to add.
  explicit Merges(std::size_t count);
  // Adds the merge of `left` and `right`. Replaces an earlier merge of the same pair.
  void add(std::int32_t left, std::int32_t right, Result);
  // Returns the merge of a pair. If the pair cannot be merged, the rank of the result is `none`.
  Result find(std::int32_t left, std::int32_t right) const {
    const auto key = key_of(left, right);
    for (std::size_t i = place(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].result;
      if (slots_[i].key == empty) return {};
    }
  }

  // Merges adjacent tokens in `ids` until no pair can be merged. Each iteration merges the pair
  // with the lowest rank or, among pairs with equal rank, the leftmost one. Takes O(n log n) time.
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
