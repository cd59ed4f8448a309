#pragma once
// An Op is a map and its adjoint. The backend, the weights and the tokens come with each call as a
// Run; what backward needs of forward is in Saved, which holds Tensors alone, so a tape cannot keep
// a gathered weight alive.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/ids.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Borrowed weights in the compute type. Throws Error for one that was not borrowed.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual ConstView operator[](ParamId) const = 0;
};

struct Rows {
  std::int64_t begin, end;
};

// Where all weight gradients are added: sums over tokens. `fill` writes or adds, by its Accumulate,
// the sums over the given rows to one view of wide(compute) for each parameter, absent if frozen. A
// kernel that also makes dx does so for these rows, so every row is visited exactly once. Where
// sums are counts of quanta (lib/base/fixed.hpp), rows come in leaves of Place::exact_chunk.
class Gradients {
 public:
  virtual ~Gradients() = default;
  using Fill = std::function<void(Rows, std::span<const View> dst, Accumulate)>;
  virtual void add(std::span<const ParamId>, std::int64_t rows, const Fill&) = 0;
  // For kernels that add counts of quanta themselves: then dst are i64, and `largest`, one of each,
  // are there.
  using FillWhole =
      std::function<void(std::span<const View> dst, std::span<const View> largest, Accumulate)>;
  // `leaves`: how many this rank adds to the most that one element gets of all ranks.
  virtual void add_whole(std::span<const ParamId>, std::int64_t leaves, const FillWhole&) = 0;
};

// Dropout is off in evaluation.
enum class Phase : std::uint8_t { train, evaluate };

// Rows of this rank's B T whose losses are added to one of several sums, and gradients' scale.
struct LossRows {
  Rows rows;
  std::int64_t sum = 0;
  double scale = 1;
};

// What goes into the head of a teacher for these tokens, and its weights; absent: there is none.
struct TaughtBy {
  ConstView x_BTC{}, w_VC{};
  double softcap = 0;  // of its logits
  double temperature = 1, share = 0;
};

// The tokens that an op works on.
struct Place {
  Phase phase = Phase::train;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  int microbatch = 0;
  SampleRows rows;         // the samples, and which T positions of them this rank has
  ConstView targets_BT{};  // i32, -1 is masked; the head's
  // i32, where documents stand apart: the position in the sample where a token's document begins,
  // of all positions; and the position in its document, of this rank's. Where a rank's positions
  // do not follow each other, and in generation with kept keys and values, the second alone: each
  // row's position.
  ConstView start_BT{}, position_BT{};
  // i32, of all ranks of seq, for routers: the token of this rank's B T that a token is counted as,
  // the first of its document here; -1: padding, or of a document that is not here. Absent: all
  // count, by sample.
  ConstView counted_RBT{};
  double scale = 1;  // 1 / valid targets of the whole step
  // Instead of that, in order and of all rows, with how many sums there are. Not with exact_chunk.
  std::span<const LossRows> losses{};
  std::int64_t loss_sums = 1;
  TaughtBy teacher{};    // the head's; not with losses or exact_chunk
  bool adapters = true;  // false: forward alone, of the model that they stand beside
  // Weights of the losses of routers, of their mean over the whole step's tokens, by the tokens.
  // Padding is none of them.
  double balance_scale = 0, z_scale = 0;
  // run.exactness = "invariant": tokens that are summed as one, a divisor of this rank's T. A
  // row's bits may depend on how many are computed at once, so products take that many. 0: fast.
  std::int64_t exact_chunk = 0;
  // Tokens that a stretch of forward (tape.hpp) takes at a time; 0: all.
  std::int64_t chunk_tokens = 0;
};

struct Cached;         // lib/ops/key_values.hpp
struct RoutingTotals;  // lib/ops/router.hpp
struct ExpertGroup;    // lib/ops/token_dispatch.hpp
namespace ops {
class SequenceLayout;  // lib/ops/sequence_layout.hpp
}

struct Run {
  Backend& backend;
  const Communicator& seq;  // the ranks that share these samples
  const Weights& weights;
  Gradients* gradients;                     // null: no weight gradient is wanted
  std::span<const std::uint8_t> trainable;  // by ParamId
  Place place;
  const Cached* cached = nullptr;  // keys and values of earlier positions, in generation
  // What routers add up over a step; null where forward is run again, or nothing trains.
  const RoutingTotals* totals = nullptr;
  const ExpertGroup* expert_group = nullptr;  // null: all experts are here
  // How seq's ranks share these samples; null: their heads alone, each has T positions in order.
  const ops::SequenceLayout* sequence = nullptr;

  bool wants(ParamId p) const { return gradients && trainable[p.index()]; }
};

using Saved = std::vector<Tensor>;

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  // Parameters whose gradients weight_gradients (or, for the head, forward) adds.
  virtual std::span<const ParamId> params() const { return {}; }
  // saved == null: there will be no backward. An input that is unique may be overwritten.
  virtual std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const = 0;
  // The adjoint, in two halves that a schedule may call at different times, this one first. An
  // absent tensor in grad_out is zero; in the result, a gradient that is not wanted. May take from
  // grad_out and Saved what weight_gradients does not need.
  virtual std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                              std::span<const std::uint8_t> wanted) const = 0;
  // Adds the gradients of params() that are wanted. Reads no weights.
  virtual void weight_gradients(const Run&, std::vector<Tensor> /*grad_out*/, Saved) const {}
  // Both, with the same bits; overridden where one pass can make both.
  virtual std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                                       std::span<const std::uint8_t> wanted) const;
};

// Activations that backward may read are "saved", others "transient".
inline Kind kind_of(const Saved* saved) {
  return saved ? Kind::saved : Kind::transient;
}

}  // namespace trireme
