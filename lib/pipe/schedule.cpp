#include "lib/pipe/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

// A program under construction. Each tensor is received just before it is read and sent right after
// it is made, so at most one arrives and one leaves in each direction.
struct Writer {
  bool from_above, to_below;  // activations: is there a stage above, below
  bool from_below, to_above;  // gradients
  Program program = {};
  int forwards = 0, backwards = 0;

  void forward() {
    const int m = forwards++;
    if (from_above) program.push_back({Do::receive_activation, m});
    program.push_back({Do::forward, m});
    if (to_below) program.push_back({Do::send_activation, m});
  }
  void backward() {
    const int m = backwards++;
    if (from_below) program.push_back({Do::receive_gradient, m});
    program.push_back({Do::backward, m});
    if (to_above) program.push_back({Do::send_gradient, m});
  }
};

void expect_stage(int stages, int microbatches, int stage) {
  expect(stages >= 1 && stage >= 0 && stage < stages, "a program's stage is one of its stages");
  expect(microbatches >= 0, "a program has no negative number of microbatches");
}

}  // namespace

Program one_f_one_b(int stages, int microbatches, int stage, int first_trainable_stage) {
  expect_stage(stages, microbatches, stage);
  expect(first_trainable_stage >= 0 && first_trainable_stage <= stages,
         "the first trainable stage is one of the stages or the number of them");
  if (stage < first_trainable_stage) return forward_only(stages, microbatches, stage);
  const bool last = stage == stages - 1;
  Writer w{.from_above = stage > 0,
           .to_below = !last,
           .from_below = !last,
           .to_above = stage > first_trainable_stage};
  const int ahead = std::min(stages - stage - 1, microbatches);
  while (w.forwards < ahead) w.forward();
  while (w.forwards < microbatches) {
    w.forward();
    w.backward();
  }
  while (w.backwards < microbatches) w.backward();
  return w.program;
}

Program forward_only(int stages, int microbatches, int stage) {
  expect_stage(stages, microbatches, stage);
  Writer w{.from_above = stage > 0,
           .to_below = stage < stages - 1,
           .from_below = false,
           .to_above = false};
  while (w.forwards < microbatches) w.forward();
  return w.program;
}

std::string_view name_of(Do what) {
  constexpr std::string_view names[] = {"receive_activation", "forward",  "send_activation",
                                        "receive_gradient",   "backward", "send_gradient"};
  return names[static_cast<int>(what)];
}

std::string describe(const Instruction& i) {
  return i.chunk == 0 ? fmt::format("{} {}", name_of(i.what), i.microbatch)
                      : fmt::format("{} {} of chunk {}", name_of(i.what), i.microbatch, i.chunk);
}

}  // namespace trireme
