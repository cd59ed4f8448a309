#include "lib/pipe/executor.hpp"

#include <map>
#include <utility>

namespace trireme {

namespace {

// The sends and receives of one direction.
class Link {
 public:
  Link(Backend& b, const Communicator& c, Queue q) : backend_(b), comm_(c), queue_(q) {}

  void send(Tensor t, int to, int m) {
    settle();
    backend_.wait(queue_, backend_.record(Queue::compute));
    leaving_ = comm_.send(backend_, queue_, t.view(), to, {Doing::send, "the stage boundary", m});
    leaving_.keep(std::move(t));
  }
  Tensor receive(const Boundary& what, int from, int m) {
    Tensor t = Tensor::empty(backend_, what.shape, what.dtype, Kind::boundary, queue_);
    auto p =
        comm_.receive(backend_, queue_, t.view(), from, {Doing::receive, "the stage boundary", m});
    p.keep(t);
    p.wait(Queue::compute);
    return t;
  }
  void settle() { leaving_.wait(Queue::compute); }

 private:
  Backend& backend_;
  const Communicator& comm_;
  Queue queue_;
  Pending leaving_;  // holds its tensor, also when a stage fails
};

// Tensors between one instruction and the next of the same microbatch, by chunk.
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

void execute(const Program& program, Stage& stage, Backend& backend, const Pipe& pipe) {
  const int me = pipe.down.rank(), stages = pipe.down.size();
  const int below = (me + 1) % stages, above = (me + stages - 1) % stages;
  const int step = stages == 1 ? 1 : 0;  // alone, a stage hands on to its own chunks
  Link down(backend, pipe.down, Queue::down), up(backend, pipe.up, Queue::up);
  Held activation, gradient;
  int begun = 0;  // microbatches
  for (const auto& [what, m, c] : program) {
    if (m >= begun) stage.begin(m), begun = m + 1;
    if (stage.leaves_out(m) && !computes(what)) continue;
    switch (what) {
      case Do::receive_activation:
        activation.put(m, c, down.receive(stage.boundary(), above, m));
        break;
      case Do::forward:
        activation.put(m, c + step, stage.forward(m, c, activation.take(m, c)));
        break;
      case Do::send_activation:
        down.send(activation.take(m, c), below, m);
        break;
      case Do::receive_gradient:
        gradient.put(m, c, up.receive(stage.boundary(), below, m));
        break;
      case Do::backward:
        gradient.put(m, c - step, stage.backward(m, c, gradient.take(m, c)));
        break;
      case Do::input_gradients:
        gradient.put(m, c - step, stage.input_gradients(m, c, gradient.take(m, c)));
        break;
      case Do::weight_gradients:
        stage.weight_gradients(m, c);
        break;
      case Do::send_gradient:
        up.send(gradient.take(m, c), above, m);
        break;
    }
    pipe.down.progress();
  }
  down.settle();
  up.settle();
}

}  // namespace trireme
