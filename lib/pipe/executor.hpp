#pragma once
// Runs a program: each instruction is a call of the stage or a message. Each direction has a
// communicator and a queue: one in-order queue for both would deadlock. At most one activation and
// one gradient are in flight to each side. Messages of stages of several chunks go through the host
// (Pipeline::through_host): queues of devices would wait for each other.
#include "lib/comm/communicator.hpp"
#include "lib/pipe/pipeline.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

struct Boundary {
  Shape shape;
  DType dtype;
};

// What a pipeline stage computes; independent of ranks and messages.
class Stage {
 public:
  virtual ~Stage() = default;
  // The tensor sent between stages, the same everywhere: [B, T, C].
  virtual Boundary boundary() const = 0;
  // Before a microbatch's first instruction, and before messages of it: for what all ranks decide.
  virtual void begin(int /*microbatch*/) {}
  // Since then: is it left out, on all stages? It then has no messages, and forward and backward
  // get and return absent tensors.
  virtual bool leaves_out(int /*microbatch*/) const { return false; }
  // The first virtual stage gets an absent tensor, the last returns one.
  virtual Tensor forward(int microbatch, int chunk, Tensor x_BTC) = 0;
  virtual Tensor backward(int microbatch, int chunk, Tensor dy_BTC) = 0;
  // Backward in halves, for programs that have it so.
  virtual Tensor input_gradients(int microbatch, int chunk, Tensor dy_BTC) = 0;
  virtual void weight_gradients(int microbatch, int chunk) = 0;
};

// Two communicators of the same stages, in which rank = stage: for messages down and up, as Peer
// says. Default: one stage.
struct Pipe {
  Communicator down, up = down;
};

// Error when a stage or a message fails; operations in flight are then abandoned
// (Communicator::abandoned).
void execute(const Program&, const Pipeline&, Stage&, Backend&, const Pipe&);

}  // namespace trireme
