#include "lib/pipe/executor.hpp"

#include <map>
#include <utility>

namespace trireme {

namespace {

// Sends and receives in one direction.
class Link {
 public:
  Link(Backend& b, const Communicator& c, Queue q) : backend_(b), comm_(c), queue_(q) {}

  void send(Tensor t, int to, Do what, int m) {
    Pending& leaving = what == Do::send_activation ? activation_ : gradient_;
    leaving.wait(Queue::compute);
    backend_.wait(queue_, backend_.record(Queue::compute));
    leaving =
        comm_.send(backend_, queue_, t.view(), to, {OperationKind::send, "the stage boundary", m});
    leaving.keep(std::move(t));
  }
  Tensor receive(const Boundary& what, int from, int m) {
    Tensor t = Tensor::empty(backend_, what.shape, what.dtype, MemoryKind::boundary, queue_);
    auto p = comm_.receive(backend_, queue_, t.view(), from,
                           {OperationKind::receive, "the stage boundary", m});
    p.keep(t);
    p.wait(Queue::compute);
    return t;
  }
  void wait_sent() {
    activation_.wait(Queue::compute);
    gradient_.wait(Queue::compute);
  }

 private:
  Backend& backend_;
  const Communicator& comm_;
  Queue queue_;
  Pending activation_, gradient_;  // sends in flight, which keep their tensors if a stage throws
};

// Tensors that the next instruction on the same micro-batch and chunk will read.
class Held {
 public:
  void put(int m, int chunk, Tensor t) { tensors_[{m, chunk}] = std::move(t); }
  Tensor take(int m, int chunk) {
    const auto it = tensors_.find({m, chunk});
    if (it == tensors_.end()) return {};
    Tensor t = std::move(it->second);
    tensors_.erase(it);
    return t;
  }

 private:
  std::map<std::pair<int, int>, Tensor> tensors_;
};

}  // namespace

void execute(const Program& program, const Pipeline& pipeline, Stage& stage, Backend& backend,
             const Pipe& pipe) {
  const int me = pipe.down.rank();
  Link down(backend, pipe.down, Queue::down), up(backend, pipe.up, Queue::up);
  Held activation, gradient;
  // Stores a chunk's result for the instruction that sends it, or for this stage's next chunk.
  const auto hand_on = [&](Held& held, Do message, int m, int c, Tensor t) {
    const Peer to = peer_of(pipeline, me, {message, m, c});
    held.put(m, to.stage == me ? to.chunk : c, std::move(t));
  };
  int begun = 0;  // number of microbatches begun
  for (const auto& i : program) {
    const auto& [what, m, c] = i;
    if (m >= begun) stage.begin(m), begun = m + 1;
    if (stage.leaves_out(m) && !computes(what)) continue;
    const auto receive = [&] {
      const Peer from = peer_of(pipeline, me, i);
      return (from.down ? down : up).receive(stage.boundary(), from.stage, m);
    };
    const auto send = [&](Held& held) {
      const Peer to = peer_of(pipeline, me, i);
      (to.down ? down : up).send(held.take(m, c), to.stage, what, m);
    };
    switch (what) {
      case Do::receive_activation:
        activation.put(m, c, receive());
        break;
      case Do::forward:
        hand_on(activation, Do::send_activation, m, c, stage.forward(m, c, activation.take(m, c)));
        break;
      case Do::send_activation:
        send(activation);
        break;
      case Do::receive_gradient:
        gradient.put(m, c, receive());
        break;
      case Do::backward:
        hand_on(gradient, Do::send_gradient, m, c, stage.backward(m, c, gradient.take(m, c)));
        break;
      case Do::input_gradients:
        hand_on(gradient, Do::send_gradient, m, c,
                stage.input_gradients(m, c, gradient.take(m, c)));
        break;
      case Do::weight_gradients:
        stage.weight_gradients(m, c);
        break;
      case Do::send_gradient:
        send(gradient);
        break;
    }
    pipe.down.progress();
  }
  down.wait_sent();
  up.wait_sent();
}

}  // namespace trireme
