#pragma once
// How the ranks of seq share a sample. Up to as many as there are query heads share out heads
// (Jacobs et al. 2023, "DeepSpeed Ulysses"); where there are more, groups of such neighbours share
// out positions, and in attention the keys and values of the other groups stream past (Liu et al.
// 2023, "Ring Attention"), in chunks of the context in ascending order. A group has a block of
// queries of each chunk; their order turns round from chunk to chunk (the folded slices of Liu et
// al. 2024, "Context Parallelism ... in Llama 3"), so that all have as many keys to see.
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

// Positions [begin, end).
struct Span {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

class SequenceLayout {
 public:
  // One rank, or ranks that share out heads alone, of `tokens` positions.
  explicit SequenceLayout(std::int64_t tokens) : SequenceLayout(tokens, 1, 1, 1, 1) {}
  // `ranks` of seq, a divisor of `tokens`; a block begins and ends at multiples of `leaf` rows of
  // its rank, a divisor of tokens / ranks. key_tile: BackendProperties's.
  SequenceLayout(std::int64_t tokens, int ranks, std::int64_t heads, std::int64_t leaf,
                 std::int64_t key_tile);

  std::int64_t tokens() const { return borders_.back(); }
  int ranks() const { return head_ranks_ * groups_; }
  // Ranks that share out heads: neighbours, and as many as divide `ranks` and have a head each.
  int head_ranks() const { return head_ranks_; }
  int groups() const { return groups_; }
  int group_of(int rank) const { return rank / head_ranks_; }
  int head_rank_of(int rank) const { return rank % head_ranks_; }

  int chunks() const { return static_cast<int>(borders_.size()) - 1; }
  Span chunk(int c) const { return {borders_[at(c)], borders_[at(c) + 1]}; }
  // The positions of a chunk whose queries, keys and values a group has.
  Span block(int group, int chunk) const;
  // All positions of a rank, in order: its part of its group's blocks, which stand one after the
  // other.
  std::vector<Span> positions(int rank) const;
  std::vector<std::int32_t> every_position(int rank) const;
  // Keys of a chunk that the group's queries see, with a window or (0) without: whole tiles of
  // `key_tile` keys; empty: none.
  Span seen(int group, int chunk, std::int64_t window) const;
  // The same of these queries alone.
  Span seen_by(const Span& queries, int chunk, std::int64_t window) const;

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int head_ranks_, groups_;
  std::int64_t key_tile_;
  std::vector<std::int64_t> borders_;  // of chunks
};

// The most of so many ranks that divide them and have one of so many heads each.
int ranks_with_heads(int ranks, std::int64_t heads);

// Those of the ranks of seq that share out heads with this one.
struct HeadRanks {
  int first, rank, size;
};
HeadRanks head_ranks(const Run&);

}  // namespace trireme::ops
