#pragma once
// Tape: ops in the order in which they ran, for one backward pass. No backend, weights or Run.
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// A tensor and its slot on a tape. The tape itself holds no tensor but those in Saved, so that a
// value is freed once its callers drop it.
struct Value {
  Tensor data;
  std::int32_t slot = -1;
};

// again: forward is run a second time, for its backward alone, so nobody reads what it ends with.
enum class Record : std::uint8_t { off, on, again };

class Tape;

// A stretch of forward: ops that compute each token of x_BTC from that token and its place alone.
// So it may go through a microbatch's tokens in chunks. Lives in the model, as ops do.
class Stretch {
 public:
  virtual ~Stretch() = default;
  virtual std::string_view name() const = 0;
  // An output may be an input.
  virtual std::vector<Value> forward(Tape&, const Run&, std::vector<Value> in) const = 0;
};

class Tape {
 public:
  explicit Tape(Record r = Record::on) : record_(r) {}

  // A leaf; `wanted`: backward() computes its gradient.
  Value input(Tensor, bool wanted);
  // Runs the op. It is recorded when a gradient flows through it to a wanted leaf or a trainable
  // parameter.
  std::vector<Value> apply(const Run&, const Op&, std::vector<Value> in);
  Value apply(const Run&, const Op&, Value in);
  // Runs the stretch: as it stands, or, where there are more than Place::chunk_tokens, in chunks of
  // tokens. Then its inputs alone are kept, and backward runs each chunk forward again before it
  // goes back through it, so that nothing else of it lives for more than a chunk.
  std::vector<Value> apply(const Run&, const Stretch&, std::vector<Value> in);
  // Of the stretch that a forward ends with, which has one output: it is absent with Record::again
  // where the stretch goes in chunks, as these are run again anyway.
  Value finish(const Run&, const Stretch&, std::vector<Value> in);
  // Backpropagates from `root`, whose gradient is `seed` (absent if its op needs none), and returns
  // the gradient of `leaf`, absent if that was not wanted.
  Tensor backward(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf) &&;
  // The same in two halves, with the same bits. The first gets a Run whose gradients say what is
  // wanted, and adds none; it keeps of each op what the second reads. The second reads no weights.
  // Of a stretch in chunks that is kept of every chunk.
  Tensor input_gradients(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf);
  void weight_gradients(const Run&) &&;
  bool empty() const { return steps_.empty(); }

 private:
  struct Step {
    const Op* op = nullptr;            // ops live in the model
    const Stretch* stretch = nullptr;  // instead of an op: in chunks
    std::vector<std::int32_t> in = {}, out = {};
    Saved saved = {};
  };
  // What an op's second half reads.
  struct Later {
    const Op* op;
    std::vector<Tensor> grad_out;
    Saved saved;
  };
  // `seeds`: the gradients of `roots`. The result: those of `leaves`.
  template <class Adjoint>
  std::vector<Tensor> walk(const Run&, std::span<const std::int32_t> roots,
                           std::vector<Tensor> seeds, std::span<const std::int32_t> leaves,
                           const Adjoint&);
  using Slots = std::span<const std::int32_t>;
  std::vector<Tensor> backward(const Run&, Slots roots, std::vector<Tensor> seeds, Slots leaves);
  std::vector<Tensor> input_gradients(const Run&, Slots roots, std::vector<Tensor> seeds,
                                      Slots leaves);
  // A chunk's forward again, then go_back on its tape.
  using GoBack = std::function<std::vector<Tensor>(Tape&, const Run&, Slots roots,
                                                   std::vector<Tensor> seeds, Slots leaves)>;
  static std::vector<Tensor> each_chunk_back(const Run&, const Step&, std::vector<Tensor> grad_out,
                                             std::span<const std::uint8_t> wanted, const GoBack&);

  Record record_;
  std::vector<std::uint8_t> wanted_;
  std::vector<Step> steps_;
  std::vector<Later> later_;  // in the order of the first half
};

}  // namespace trireme
