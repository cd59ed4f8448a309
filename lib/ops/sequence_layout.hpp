#pragma once
// SequenceLayout: how sequence-parallel ranks divide a sample. Ranks divide the attention heads as
// long as there is a query head for each rank (Jacobs et al. 2023, "DeepSpeed Ulysses"). If there
// are more ranks than query heads, the ranks form groups. Ranks of a group divide the heads, groups
// divide the positions, and the keys and values of other groups arrive in chunks during attention
// (Liu et al. 2023, "Ring Attention").
//
// The context is divided into chunks, and each chunk into one block of queries per group. The order
// of groups reverses from chunk to chunk (the folded slices of Liu et al. 2024, "Context
// Parallelism ... in Llama 3"), so that all groups have the same number of keys to attend to.
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

// A range [begin, end) of positions.
struct Span {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

// The positions and heads of each sequence-parallel rank.
class SequenceLayout {
 public:
  // Creates the layout of `tokens` positions for one rank, or for ranks that divide only the heads.
  explicit SequenceLayout(std::int64_t tokens) : SequenceLayout(tokens, 1, 1, 1, 1) {}
  // `ranks` must divide `tokens`. `heads` is the number of query heads. `leaf` is the number of
  // tokens whose gradients exact sums add as one term. Blocks begin and end at multiples of `leaf`
  // rows of their rank. `leaf` must divide tokens / ranks. Chunks begin at multiples of `key_tile`,
  // which is BackendProperties::key_tile.
  SequenceLayout(std::int64_t tokens, int ranks, std::int64_t heads, std::int64_t leaf,
                 std::int64_t key_tile);

  std::int64_t tokens() const { return borders_.back(); }
  int ranks() const { return head_ranks_ * groups_; }
  // Returns the number of consecutive ranks that divide the heads among them: the largest divisor
  // of `ranks` that does not exceed the number of heads.
  int head_ranks() const { return head_ranks_; }
  int groups() const { return groups_; }
  int group_of(int rank) const { return rank / head_ranks_; }
  int head_rank_of(int rank) const { return rank % head_ranks_; }

  int chunks() const { return static_cast<int>(borders_.size()) - 1; }
  Span chunk(int c) const { return {borders_[at(c)], borders_[at(c) + 1]}; }
  // Returns the positions in a chunk whose queries, keys and values belong to a group.
  Span block(int group, int chunk) const;
  // Returns all positions of a rank in order. They are the rank's parts of its group's blocks,
  // which are stored one after another.
  std::vector<Span> positions(int rank) const;
  // Returns positions(rank) as a list of single positions.
  std::vector<std::int32_t> every_position(int rank) const;
  // Returns the keys of a chunk that any query of the group attends to. The range begins at a
  // multiple of `key_tile`, and is empty if there are no such keys. `window` = 0 means no window.
  Span seen(int group, int chunk, std::int64_t window) const;
  // Returns the keys of a chunk that any of these queries attends to. The range has the same form
  // as the result of seen().
  Span seen_by(const Span& queries, int chunk, std::int64_t window) const;

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int head_ranks_, groups_;
  std::int64_t key_tile_;
  std::vector<std::int64_t> borders_;  // borders between chunks
};

// Returns the largest divisor of `ranks` that does not exceed `heads`.
int ranks_with_heads(int ranks, std::int64_t heads);

// The sequence-parallel ranks that divide the heads with this rank: the first of them, this rank's
// index among them, and their number.
struct HeadRanks {
  int first, rank, size;
};
HeadRanks head_ranks(const Run&);

}  // namespace trireme::ops
