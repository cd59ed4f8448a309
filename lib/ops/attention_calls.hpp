#pragma once
// The kernel calls that compute attention on this rank. Each call processes a run of queries, a
// piece of the keys that they attend to and a group of heads. Other functions here return the
// tensor slices that a call reads and writes.
#include <cstdint>
#include <vector>

#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// This rank's attention heads, as slices of a tensor x_BTX with this rank's samples and positions.
struct OwnHeads {
  OwnHeads(const Run&, const Heads&, const Tensor& x_BTX);
  // Returns the part of an attention output that the heads of a group produce.
  View heads(const Tensor& o, const HeadGroup&) const;
  // Returns the log-sum-exp values [B, h, T] of a group's heads. The values are contiguous in
  // memory.
  View lse(const Tensor& lse, const HeadGroup&) const;

  HeadShare share;
  std::int64_t dim, batch, tokens;
  std::vector<HeadGroup> groups;
};

// Queries of one call, called a run: rows of this rank with consecutive positions in one chunk of
// the context.
struct QueryRun {
  std::int64_t row;
  Span positions;
  int chunk;  // chunk of the context that contains them
};

// One kernel call: a run of queries, a piece of the keys that they attend to, and a group of heads.
struct AttentionCall {
  std::size_t run;  // index of the QueryRun
  HeadGroup heads;
  std::size_t group;  // index of the HeadGroup
  Span keys;
  Piece piece;
  AttentionShape shape;
};

// All calls of one attention op on this rank.
class AttentionCalls : public OwnHeads {
 public:
  // If `rows` > 0, each run of queries has this many rows. Otherwise each run is a whole block of a
  // chunk (sequence_layout.hpp).
  AttentionCalls(const Run&, const Heads&, std::int64_t window, const Scores&,
                 const Tensor& qkv_BTX, Direction, std::int64_t rows = 0);

  // Returns, in order, the calls whose keys are in chunk `c`.
  std::vector<AttentionCall> with_keys_of(int c) const;
  // Returns scratch memory that suffices for any of the calls. Allocate it last, because it is
  // freed first.
  Tensor workspace() const;
  // Returns the state that passes from one call to the call with the next piece of keys, for the
  // same queries and heads. The state is absent if one call has all the keys.
  Tensor state(const AttentionCall&);

  // Return the rows and heads that a call uses, as views of tensors with this rank's rows.
  View queries(const View& q_BTHD, const AttentionCall&) const;
  View heads_of(const Tensor& o, const AttentionCall&) const;
  View lse_of(const Tensor& all, const AttentionCall&) const;
  // Returns a call's keys (which = 0) or values (which = 1) in a chunk [B, T, 2 G, D].
  View keys(const View& chunk_BTGD, int chunk, const AttentionCall&, std::int64_t which) const;
  ConstView starts(const ConstView& start_BT, const AttentionCall&) const;
  Packed packed(const Tensor& qkv) const;
  // Returns the keys and values in qkv as one view [B, T, 2 G, D].
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
  std::vector<Tensor> states_;  // by run of queries and group of heads
};

}  // namespace trireme::ops
