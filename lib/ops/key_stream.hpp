#pragma once
// The exchange of keys and values between groups of sequence-parallel ranks (sequence_layout.hpp).
// Chunks of the context arrive in ascending order. While one chunk is used, the next chunk is in
// transit. Gradients are sent back in the same way. A chunk is stored as [T, B, 2 G, D] with keys
// before values, so that all sent and received ranges are dense.
#include <functional>
#include <optional>
#include <vector>

#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme::ops {

// Shape of the exchanged keys and values, and which of them are exchanged.
struct KeyRows {
  const Run& run;
  const SequenceLayout& layout;
  std::int64_t batch, kv_heads, dim;
  std::int64_t window;  // 0 means none
  bool every_key;       // also exchange keys that no query of this rank attends to

  Shape shape(std::int64_t positions) const { return {positions, batch, 2 * kv_heads, dim}; }
  int group() const { return layout.group_of(run.seq.rank()); }
  int rank_of(int group) const { return group * layout.head_ranks() + head_ranks(run).rank; }
  // needed() returns the positions of chunk `c` that `group` needs. needed_of() returns the subset
  // of these positions that the group `owner` has.
  Span needed(int group, int c) const;
  Span needed_of(int group, int c, int owner) const;
};

// Returns a view of [T, B, 2 G, D] as [B, T, 2 G, D].
View by_sample(View rows_TBGD);

// The keys and values of all groups, which arrive chunk by chunk.
class KeyStream {
 public:
  // kv_BTGD [B, T, 2 G, D] contains this rank's keys and values: the blocks of its group, one after
  // another.
  KeyStream(const KeyRows&, const View& kv_BTGD);
  // Returns the keys and values [B, T, 2 G, D] of chunk `c`. Only the positions that this rank
  // needs are set. Call the function once for each chunk, in order. The result is valid until the
  // next call.
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

// Gradients of keys and values. They are summed over groups, one chunk at a time.
class KeyGradients {
 public:
  // Function that receives the sums for this rank's block of a chunk. It is called once for each
  // chunk.
  using Put = std::function<void(int c, const Tensor& sum_TBGD)>;
  KeyGradients(const KeyRows&, DType type, Put put);
  // Returns a tensor of zeros [T, B, 2 G, D] for all positions of chunk `c`. The caller adds
  // gradients to it.
  Tensor start(int c) const;
  // Sends the gradients of chunk `c` to the ranks that own the keys and values. Then completes the
  // previous chunk and calls `put` for it.
  void exchange(int c, Tensor sum_TBGD);
  // Completes the last chunk and calls `put` for it.
  void finish();

 private:
  struct Leaving {
    int c;
    Tensor sum_TBGD;
    std::vector<Tensor> from;  // by group: its gradients for this rank's block
    Pending pending;
  };
  KeyRows rows_;
  DType type_;
  Put put_;
  std::optional<Leaving> before_;
};

}  // namespace trireme::ops
