#pragma once
// Tape: ops in the order in which they ran, for one backward pass. No backend, weights or Run.
#include <memory>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// A tensor and its slot on a tape. The tape itself holds no tensor but those in Saved, so that a
// value is freed once its callers drop it.
struct Value {
  Tensor data;
  std::int32_t slot = -1;
};

enum class Record : std::uint8_t { off, on };

class Tape {
 public:
  explicit Tape(Record r = Record::on) : record_(r) {}

  // A leaf; `wanted`: backward() computes its gradient.
  Value input(Tensor, bool wanted);
  // Runs the op. It is recorded when a gradient flows through it to a wanted leaf or a trainable
  // parameter.
  std::vector<Value> apply(const Run&, const Op&, std::vector<Value> in);
  Value apply(const Run&, const Op&, Value in);
  // Backpropagates from `root`, whose gradient is `seed` (absent if its op needs none), and returns
  // the gradient of `leaf`, absent if that was not wanted.
  Tensor backward(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf) &&;
  // The same in two halves, with the same bits. The first gets a Run whose gradients say what is
  // wanted, and adds none; it keeps of each op what the second reads. The second reads no weights.
  Tensor input_gradients(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf);
  void weight_gradients(const Run&) &&;
  bool empty() const { return steps_.empty(); }

 private:
  struct Step {
    const Op* op;  // ops live in the model
    std::vector<std::int32_t> in, out;
    Saved saved;
  };
  // What an op's second half reads.
  struct Later {
    const Op* op;
    std::vector<Tensor> grad_out;
    Saved saved;
  };
  template <class Adjoint>
  Tensor walk(const Run&, std::int32_t root, Tensor seed, std::int32_t leaf, const Adjoint&);

  Record record_;
  std::vector<std::uint8_t> wanted_;
  std::vector<Step> steps_;
  std::vector<Later> later_;  // in the order of the first half
};

}  // namespace trireme
