#pragma once
// Op: a differentiable operation, given by its forward pass and its adjoint. A Run carries the
// backend, the weights and the description of the tokens to each call. Saved holds the tensors that
// the backward pass needs. Saved contains no weights, so a tape cannot keep an all-gathered weight
// alive.
//
// Names of tensors end in their dims: B samples, T positions (or rows of all samples), C and N
// channels, V vocabulary, H query heads, G key-value heads, D channels per head, E experts, K
// experts per token, R rows.
#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/ids.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// The weights that a part has borrowed for one use, in the compute type. operator[] throws Error if
// the parameter was not borrowed.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual ConstView operator[](ParamId) const = 0;
};

// A half-open range [begin, end) of rows.
struct Rows {
  std::int64_t begin, end;
};

// Receiver of all weight gradients, which are sums over tokens.
class Gradients {
 public:
  virtual ~Gradients() = default;
  // Function that computes the gradient sums over the given rows and writes them to `dst`, or adds
  // them. `dst` has one view per parameter, of type wide(compute). The view of a frozen parameter
  // is absent.
  using Fill = std::function<void(Rows, std::span<const View> dst, Accumulate)>;
  // Adds the gradients of some parameters. Calls `fill` for ranges that together contain each of
  // the `rows` rows exactly once. If an op's kernel also computes the input gradient, the op
  // computes the input gradient in `fill`, too. With exact sums (lib/base/fixed.hpp), each range
  // has PassContext::exact_chunk rows. Its gradient is then one term of the sum, called a leaf.
  virtual void add(std::span<const ParamId>, std::int64_t rows, const Fill&) = 0;
  // Function that computes the gradient sums over all rows. With exact sums, the views in `dst` are
  // i64. `largest` then has one view per parameter, which receives the largest magnitude of a term.
  using FillWhole =
      std::function<void(std::span<const View> dst, std::span<const View> largest, Accumulate)>;
  // Adds the gradients of some parameters with one call of the function. It is for kernels that sum
  // over all rows themselves. `leaves` is this call's contribution to the upper limit on the number
  // of terms in one element's sum over all ranks.
  virtual void add_whole(std::span<const ParamId>, std::int64_t leaves, const FillWhole&) = 0;
};

// Whether the run trains or evaluates. Evaluation has no dropout.
enum class Phase : std::uint8_t { train, evaluate };

// A range of this rank's B * T rows. The losses of these rows are added to the loss sum with index
// `sum`, and their gradients are multiplied by `scale`.
struct LossRows {
  Rows rows;
  std::int64_t sum = 0;
  double scale = 1;
};

// A teacher model for distillation: the input of its output layer for the same tokens, and the
// weight of that layer. Absent if there is no teacher.
struct TeacherHead {
  ConstView x_BTC{}, w_VC{};
  double softcap = 0;  // soft cap of the teacher's logits; 0 means none
  // Temperature by which the logits of both models are divided in the divergence from the teacher,
  // and the fraction (`share`) of the loss that this divergence makes up.
  double temperature = 1, share = 0;
};

// The tokens that an op processes, and settings for processing them.
struct PassContext {
  Phase phase = Phase::train;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  int microbatch = 0;
  SampleRows rows;         // the samples, and this rank's T positions in them
  ConstView targets_BT{};  // for the head: i32, where -1 means no target
  // Positions for attention within documents (i32). `start_BT` is the position in the sample at
  // which a token's document begins, for all positions of the sample. `position_BT` is the position
  // within the document, for this rank's tokens. If a rank's positions are not contiguous, or if
  // keys and values are cached, only `position_BT` is present and contains the position of each
  // row.
  ConstView start_BT{}, position_BT{};
  // Document indices (i32) for routers that balance load within documents, for the tokens of all
  // sequence-parallel ranks. Each token has the index of its document's first token among this
  // rank's B * T tokens. The index is -1 for padding and for documents without a token on this
  // rank. If `counted_RBT` is absent, load is balanced within samples and every token counts.
  ConstView counted_RBT{};
  // Largest factor of a target's loss: 1 / valid targets in the whole step or, if documents have
  // weights, their largest weight / the sum of the targets' weights.
  double scale = 1;
  // Ranges of rows in order that cover all rows, and the number of loss sums that the ranges use.
  // If not empty, they replace `scale`.
  std::span<const LossRows> losses{};
  std::int64_t loss_sums = 1;
  TeacherHead teacher{};  // for the head; must be absent with exact_chunk
  // Whether adapters are applied. If false, the op computes the product without its adapter and
  // does not support a backward pass.
  bool adapters = true;
  // Factors of the routers' balancing loss and z-loss: the weight of the loss divided by the number
  // of tokens in the whole step, excluding padding.
  double balance_scale = 0, z_scale = 0;
  // Number of tokens whose gradients are summed as one term, with run.exactness = "invariant". The
  // number divides this rank's T. Matrix products then compute exactly this many rows at a time,
  // because the bits of a row may depend on the number of rows. 0 selects the fast mode.
  std::int64_t exact_chunk = 0;
  // Maximum number of tokens that a TokenwiseOps (tape.hpp) processes at a time. 0 means all
  // tokens.
  std::int64_t chunk_tokens = 0;
};

struct Cached;         // in lib/ops/key_values.hpp
struct RoutingTotals;  // in lib/ops/router.hpp
struct ExpertGroup;    // in lib/ops/token_dispatch.hpp
namespace ops {
class SequenceLayout;  // in lib/ops/sequence_layout.hpp
}

// The context of one call of an op.
struct Run {
  Backend& backend;
  const Communicator& seq;  // ranks that share these samples (sequence parallelism)
  const Weights& weights;
  Gradients* gradients;                     // null if no weight gradients are wanted
  std::span<const std::uint8_t> trainable;  // 1 if the parameter is trainable, by ParamId
  PassContext pass;
  const Cached* cached = nullptr;  // cached keys and values of earlier positions, for generation
  // Totals of the routers over one step. Null while the forward pass is recomputed, and outside of
  // training.
  const RoutingTotals* totals = nullptr;
  const ExpertGroup* expert_group = nullptr;  // null if this rank holds all experts
  // How the sequence-parallel ranks divide these samples. Null if they divide only the attention
  // heads, and each rank has T consecutive positions.
  const ops::SequenceLayout* sequence = nullptr;

  // Returns true if the gradient of `p` is wanted.
  bool wants(ParamId p) const { return gradients && trainable[p.index()]; }
};

// Tensors that the forward pass of an op saves for its backward pass: one tensor, or a struct or
// container of tensors. Each op defines its own struct, whose members name the tensors.
class Saved {
 public:
  // Replaces what was saved before.
  template <class Kept>
  void keep(Kept kept) {
    kept_ = std::move(kept);
  }
  // Returns what keep() saved. The op may then release or replace single tensors. Throws
  // std::bad_any_cast if keep() saved another type.
  template <class Kept>
  Kept& as() {
    return std::any_cast<Kept&>(kept_);
  }

 private:
  std::any kept_;
};

// A differentiable operation on tensors. Ops belong to the model and keep no state between calls.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  // Returns the parameters whose gradients this op computes, in weight_gradients() or, for the
  // head, in forward().
  virtual std::span<const ParamId> params() const { return {}; }
  // Computes the outputs from the inputs. A null Saved means that no backward pass follows. The op
  // may overwrite an input that no other Tensor shares.
  virtual std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const = 0;
  // Computes the gradients of the inputs, the first half of the backward pass. A schedule may call
  // the second half, weight_gradients(), later. An absent tensor in `grad_out` is zero. An absent
  // tensor in the result is a gradient that was not requested in `wanted`. The function may modify
  // `grad_out` and Saved, except what weight_gradients() needs.
  virtual std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                              std::span<const std::uint8_t> wanted) const = 0;
  // Adds the requested gradients of params(), the second half of the backward pass. Reads no
  // weights.
  virtual void weight_gradients(const Run&, std::vector<Tensor> /*grad_out*/, Saved) const {}
  // Runs both halves of the backward pass, with the same bits as separate calls. An op overrides
  // backward() if one pass can compute both halves.
  virtual std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                                       std::span<const std::uint8_t> wanted) const;
};

// Returns the memory kind of an op's outputs: `saved` if the backward pass may read them, otherwise
// `transient`.
inline MemoryKind kind_of(const Saved* saved) {
  return saved ? MemoryKind::saved : MemoryKind::transient;
}

}  // namespace trireme
