#pragma once
// Execution of a pipeline program: each instruction becomes a call of the stage or a message. Each
// direction has its own communicator and queue, because one in-order queue for both directions
// would deadlock. At most one activation and one gradient are in flight to each neighbor. If stages
// have several chunks, messages pass through host memory (Pipeline::through_host), because device
// queues could otherwise wait for each other.
#include "lib/comm/communicator.hpp"
#include "lib/pipe/pipeline.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Shape and type of the tensors that stages send each other.
struct Boundary {
  Shape shape;
  DType dtype;
};

// The computations of a pipeline stage. Implementations do not depend on ranks or messages.
class Stage {
 public:
  virtual ~Stage() = default;
  // Returns the shape [B, T, C] and type of the tensors between stages. All stage boundaries have
  // the same shape and type.
  virtual Boundary boundary() const = 0;
  // Called before the first instruction of a micro-batch, including messages. Implementations make
  // decisions here that all ranks must share about the micro-batch.
  virtual void begin(int /*microbatch*/) {}
  // Returns true if all stages skip the micro-batch, as decided in begin(). A skipped micro-batch
  // has no messages, and the functions below receive and return absent tensors.
  virtual bool leaves_out(int /*microbatch*/) const { return false; }
  // forward() and backward() run one pass of a micro-batch through one chunk. The first virtual
  // stage receives an absent activation. The last virtual stage returns an absent activation.
  virtual Tensor forward(int microbatch, int chunk, Tensor x_BTC) = 0;
  virtual Tensor backward(int microbatch, int chunk, Tensor dy_BTC) = 0;
  // input_gradients() and weight_gradients() are the two halves of the backward pass, for programs
  // that split it.
  virtual Tensor input_gradients(int microbatch, int chunk, Tensor dy_BTC) = 0;
  virtual void weight_gradients(int microbatch, int chunk) = 0;
};

// Two communicators of the same stages, for messages down and up the pipeline (see Peer). A rank's
// number in both is its stage. By default, there is one stage.
struct Pipe {
  Communicator down, up = down;
};

// Runs the program. Throws Error if the stage or a message fails. Operations in flight are then
// abandoned (see Communicator::abandoned).
void execute(const Program&, const Pipeline&, Stage&, Backend&, const Pipe&);

}  // namespace trireme
