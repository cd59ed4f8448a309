#pragma once
// Tape: records the ops of a forward pass in order, for one backward pass. A tape does not store
// the backend, the weights or the Run.
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// A tensor and its index (slot) on a tape. The tape stores only the tensors in Saved. Any other
// tensor is freed when its callers release it.
struct Value {
  Tensor data;
  std::int32_t slot = -1;
};

// Whether a tape records ops. `again` means that the forward pass is recomputed for its backward
// pass only, so its final output is not needed.
enum class Record : std::uint8_t { off, on, again };

class Tape;

// A sequence of ops that compute each token only from that token and its position. A tape can
// therefore run the sequence in chunks of tokens. A TokenwiseOps belongs to the model, like an op.
class TokenwiseOps {
 public:
  virtual ~TokenwiseOps() = default;
  virtual std::string_view name() const = 0;
  // Runs the ops and returns their outputs. An output may be one of the inputs.
  virtual std::vector<Value> forward(Tape&, const Run&, std::vector<Value> in) const = 0;
};

// The ops of one forward pass, and the backward pass through them.
class Tape {
 public:
  explicit Tape(Record r = Record::on) : record_(r) {}

  // Registers a tensor as an input of the tape. `wanted` says whether its gradient is needed.
  Value input(Tensor, bool wanted);
  // Runs the op. Records it if a gradient flows through it to a wanted input or a trainable
  // parameter.
  std::vector<Value> apply(const Run&, const Op&, std::vector<Value> in);
  Value apply(const Run&, const Op&, Value in);
  // Runs the sequence. If there are more than PassContext::chunk_tokens tokens, the sequence runs
  // in chunks and the tape keeps only its inputs. The backward pass then recomputes each chunk
  // before it differentiates that chunk.
  std::vector<Value> apply(const Run&, const TokenwiseOps&, std::vector<Value> in);
  // Runs the last sequence of a forward pass, which has one output. With Record::again, a sequence
  // in chunks is not run and the output is absent, because the backward pass recomputes the chunks
  // anyway.
  Value finish(const Run&, const TokenwiseOps&, std::vector<Value> in);
  // Runs the backward pass from `root`. Returns the gradient of `leaf`, or an absent tensor if that
  // gradient is not wanted. `seed` is the gradient of `root`. `seed` may be absent if the op that
  // computed `root` needs none.
  Tensor backward(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf) &&;
  // Run the backward pass in two halves, with the same bits as backward(). In the first half, the
  // Run's gradients only say what is wanted, and nothing is added to them. The first half stores
  // what the second half needs. For a sequence in chunks, it stores this for every chunk. The
  // second half reads no weights.
  Tensor input_gradients(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf);
  void weight_gradients(const Run&) &&;
  bool empty() const { return steps_.empty(); }

 private:
  // One recorded op or sequence.
  struct Step {
    const Op* op = nullptr;                  // owned by the model
    const TokenwiseOps* sequence = nullptr;  // set in place of `op` for a sequence in chunks
    std::vector<std::int32_t> in = {}, out = {};
    Saved saved = {};  // for a sequence: a vector of its inputs
  };
  // An op whose weight_gradients() has not been called yet, with the arguments for the call.
  struct Later {
    const Op* op;
    std::vector<Tensor> grad_out;
    Saved saved;
  };
  // Processes the recorded steps from last to first. `adjoint` computes each step's input
  // gradients. `seeds` are the gradients of `roots`. Returns the gradients of `leaves`.
  template <class Adjoint>
  std::vector<Tensor> walk(const Run&, std::span<const std::int32_t> roots,
                           std::vector<Tensor> seeds, std::span<const std::int32_t> leaves,
                           const Adjoint&);
  using Slots = std::span<const std::int32_t>;
  std::vector<Tensor> backward(const Run&, Slots roots, std::vector<Tensor> seeds, Slots leaves);
  std::vector<Tensor> input_gradients(const Run&, Slots roots, std::vector<Tensor> seeds,
                                      Slots leaves);
  // Function that runs the backward pass of one chunk of a sequence on the given tape.
  // each_chunk_back() recomputes each chunk on a new tape, calls the function with that tape and
  // returns the gradients of the sequence's inputs.
  using GoBack = std::function<std::vector<Tensor>(Tape&, const Run&, Slots roots,
                                                   std::vector<Tensor> seeds, Slots leaves)>;
  static std::vector<Tensor> each_chunk_back(const Run&, Step&, std::vector<Tensor> grad_out,
                                             std::span<const std::uint8_t> wanted, const GoBack&);

  Record record_;
  std::vector<std::uint8_t> wanted_;
  std::vector<Step> steps_;
  std::vector<Later> later_;  // in the order of the first half
};

}  // namespace trireme
