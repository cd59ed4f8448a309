#pragma once
// Keys and values of other groups of seq's ranks (sequence_layout.hpp), chunk by chunk in ascending
// order, the next one on its way while one is used; and their gradients on the way back.
// A chunk lies by position: [T, B, 2 G, D], its keys and then its values, so that what a rank sends
// or gets is dense.
#include <functional>
#include <optional>
#include <vector>

#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme::ops {

// What the ranks' keys and values have in common.
struct KeyRows {
  const Run& run;
  const SequenceLayout& layout;
  std::int64_t batch, kv_heads, dim;
  std::int64_t window;  // 0: none
  bool every_key;       // also those that no query of this rank sees

  Shape shape(std::int64_t positions) const { return {positions, batch, 2 * kv_heads, dim}; }
  int group() const { return layout.group_of(run.seq.rank()); }
  int rank_of(int group) const { return group * layout.head_ranks() + head_ranks(run).rank; }
  // What `group` needs of chunk c, of those of `owner`.
  Span needed(int group, int c) const;
  Span needed_of(int group, int c, int owner) const;
};

// [T, B, 2 G, D] as [B, T, 2 G, D].
View by_sample(View rows_TBGD);

class KeyStream {
 public:
  // kv_BT2GD: this rank's, its group's blocks one after the other.
  KeyStream(const KeyRows&, const View& kv_BTGD);
  // Of the chunks in order, each once: [B, T, 2 G, D] of all its positions, of which those are
  // there that are needed. Until the next call.
  View chunk(int c);

 private:
  struct Arriving {
    Tensor rows_TBGD;
    Pending pending;
  };
  Arriving exchange(int c);

  KeyRows rows_;
  View own_;
  std::optional<Arriving> here_, next_;
};

// Sums over groups of what each adds to the gradients of a chunk's keys and values.
class KeyGradients {
 public:
  // Gets `put(c, sum_TBGD)` once for each chunk, with the sums of this rank's block.
  using Put = std::function<void(int c, const Tensor& sum_TBGD)>;
  KeyGradients(const KeyRows&, DType type, Put put);
  // Zeros, for all positions of chunk c: [T, B, 2 G, D].
  Tensor start(int c) const;
  // What was added to them is on its way; the chunk before is put.
  void exchange(int c, Tensor sum_TBGD);
  // The last chunk is put.
  void finish();

 private:
  struct Leaving {
    int c;
    Tensor sum_TBGD;
    std::vector<Tensor> from;  // by group, what it needed of this rank's block
    Pending pending;
  };
  KeyRows rows_;
  DType type_;
  Put put_;
  std::optional<Leaving> before_;
};

}  // namespace trireme::ops
