#pragma once
// Which calls attention is made of on this rank: runs of its queries, each with a piece of the keys
// that they see and a group of heads; and what of its tensors a call is given.
#include <cstdint>
#include <vector>

#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// This rank's heads, of x_BTX's samples and positions.
struct OwnHeads {
  OwnHeads(const Run&, const Heads&, const Tensor& x_BTX);
  // Those of a group.
  View heads(const Tensor& o, const HeadGroup&) const;
  // A group's numbers lie together: [B, h, T].
  View lse(const Tensor& lse, const HeadGroup&) const;

  HeadShare share;
  std::int64_t dim, batch, tokens;
  std::vector<HeadGroup> groups;
};

// Queries of a call: rows of this rank's that are positions which follow each other.
struct QueryRun {
  std::int64_t row;
  Span positions;
  int chunk;  // that they are in
};

// A run's queries, a piece of their keys, a group of heads.
struct AttentionCall {
  std::size_t run;  // which one its queries are
  HeadGroup heads;
  std::size_t group;  // which one they are
  Span keys;
  Piece piece;
  AttentionShape shape;
};

class AttentionCalls : public OwnHeads {
 public:
  // rows > 0: runs of so many queries.
  AttentionCalls(const Run&, const Heads&, std::int64_t window, const Scores&,
                 const Tensor& qkv_BTX, Direction, std::int64_t rows = 0);

  // In order, those with keys of chunk c.
  std::vector<AttentionCall> with_keys_of(int c) const;
  // For any of the calls; taken last, as it is given back first.
  Tensor workspace() const;
  // What a call finds of the pieces before it, and leaves for those behind.
  Tensor state(const AttentionCall&);

  // Of this rank's rows, those of a call.
  View queries(const View& q_BTHD, const AttentionCall&) const;
  View heads_of(const Tensor& o, const AttentionCall&) const;
  View lse_of(const Tensor& all, const AttentionCall&) const;
  // Keys (which = 0) or values of a call, of a chunk's: [B, T, 2 G, D].
  View keys(const View& chunk_BTGD, int chunk, const AttentionCall&, std::int64_t which) const;
  ConstView starts(const ConstView& start_BT, const AttentionCall&) const;
  Packed packed(const Tensor& qkv) const;
  // Keys and values side by side.
  View key_values(const Tensor& qkv) const;

  SequenceLayout layout;

 private:
  View rows(const View&, const AttentionCall&) const;
  AttentionBytes needed(const AttentionCall&) const;
  Tensor lent(std::size_t bytes) const;

  Backend& backend_;
  std::int64_t window_;
  DType type_;
  Direction direction_;
  bool documents_;
  Scores scores_;
  std::vector<QueryRun> runs_;
  std::vector<Tensor> states_;  // by run and group
};

}  // namespace trireme::ops
