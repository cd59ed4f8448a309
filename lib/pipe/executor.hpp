#pragma once
// Runs a program: each instruction is a call of the stage or a message. Activations (down) and
// gradients (up) never share a communicator or a queue: one in-order queue for both deadlocks.
// At most one tensor is leaving in each direction.
#include "lib/comm/communicator.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

struct Boundary {
  Shape shape;
  DType dtype;
};

// What a pipeline stage computes; it knows no ranks and no messages.
class Stage {
 public:
  virtual ~Stage() = default;
  // What crosses from stage to stage, the same everywhere: [B, T, C].
  virtual Boundary boundary() const = 0;
  // The first stage gets an absent tensor, the last returns one.
  virtual Tensor forward(int microbatch, Tensor x_BTC) = 0;
  virtual Tensor backward(int microbatch, Tensor dy_BTC) = 0;
};

// The stages twice over, of one job; a rank's place in them is its rank. Default: one stage.
struct Pipe {
  Communicator down, up = down;
};

// Error when a stage or a message fails; what was in flight is then left named
// (Communicator::abandoned).
void execute(const Program&, Stage&, Backend&, const Pipe&);

}  // namespace trireme
