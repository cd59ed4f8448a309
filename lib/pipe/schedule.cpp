#include "lib/pipe/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

// One stage's program under construction. Each tensor is received just before it is read and sent
// right after it is made, so at most one arrives and one leaves in each direction.
class Writer {
 public:
  Writer(int stages, int chunks, int stage, int first_trainable)
      : stages_(stages), chunks_(chunks), stage_(stage), first_trainable_(first_trainable) {
    expect(stages >= 1 && chunks >= 1 && stage >= 0 && stage < stages,
           "a program's stage is one of its stages");
    expect(first_trainable >= 0 && first_trainable <= stages * chunks,
           "the first trainable stage is one of the stages or the number of them");
  }

  void forward(int m, int chunk = 0) {
    const int at = virtual_stage(chunk);
    message(at > 0, Do::receive_activation, m, chunk);
    program_.push_back({Do::forward, m, chunk});
    message(at < last(), Do::send_activation, m, chunk);
  }
  void backward(int m, int chunk = 0, Do what = Do::backward) {
    const int at = virtual_stage(chunk);
    if (at < first_trainable_) return;
    message(at < last(), Do::receive_gradient, m, chunk);
    program_.push_back({what, m, chunk});
    message(at > first_trainable_, Do::send_gradient, m, chunk);
  }
  void weight_gradients(int m) { program_.push_back({Do::weight_gradients, m}); }
  Program take() { return std::move(program_); }

 private:
  int virtual_stage(int chunk) const { return chunk * stages_ + stage_; }
  int last() const { return stages_ * chunks_ - 1; }
  void message(bool there, Do what, int m, int chunk) {
    if (there && stages_ > 1) program_.push_back({what, m, chunk});
  }

  int stages_, chunks_, stage_, first_trainable_;
  Program program_;
};

void expect_microbatches(int microbatches) {
  expect(microbatches >= 0, "a program has no negative number of microbatches");
}

}  // namespace

bool computes(Do what) {
  using enum Do;
  return what == forward || what == backward || what == input_gradients || what == weight_gradients;
}

Do backward_of(const Program& p) {
  const bool halves = std::ranges::find(p, Do::input_gradients, &Instruction::what) != p.end();
  return halves ? Do::input_gradients : Do::backward;
}

Program one_f_one_b(int stages, int microbatches, int stage, int first_trainable) {
  expect_microbatches(microbatches);
  Writer w(stages, 1, stage, first_trainable);
  const int ahead = std::min(stages - stage - 1, microbatches);
  for (int i = 0; i < microbatches + ahead; ++i) {
    if (i < microbatches) w.forward(i);
    if (i >= ahead) w.backward(i - ahead);
  }
  return w.take();
}

Program zero_bubble(int stages, int microbatches, int stage, WeightGradients weights,
                    int first_trainable) {
  if (stage <= first_trainable) return one_f_one_b(stages, microbatches, stage, first_trainable);
  expect_microbatches(microbatches);
  Writer w(stages, 1, stage, first_trainable);
  const int ahead = std::min(stages - stage - 1, microbatches);
  const int late = weights == WeightGradients::late ? stage - first_trainable : 0;
  for (int i = 0; i < microbatches + ahead; ++i) {
    if (i < microbatches) w.forward(i);
    if (i >= ahead) w.backward(i - ahead, 0, Do::input_gradients);
    if (i >= ahead + late) w.weight_gradients(i - ahead - late);
  }
  for (int m = std::max(microbatches - late, 0); m < microbatches; ++m) w.weight_gradients(m);
  return w.take();
}

Program interleaved(int stages, int chunks, int microbatches, int stage, int first_trainable) {
  expect_microbatches(microbatches);
  expect(microbatches % stages == 0, "microbatches are a multiple of the stages");
  Writer w(stages, chunks, stage, first_trainable);
  const int all = microbatches * chunks, group = stages * chunks;
  const int ahead = std::min(2 * (stages - stage - 1) + (chunks - 1) * stages, all);
  // Of the i-th forward or backward of a chunk.
  const auto microbatch = [&](int i) { return i / group * stages + i % stages; };
  const auto chunk = [&](int i) { return i % group / stages; };
  for (int i = 0; i < all + ahead; ++i) {
    if (i < all) w.forward(microbatch(i), chunk(i));
    if (const int b = i - ahead; b >= 0) w.backward(microbatch(b), chunks - 1 - chunk(b));
  }
  return w.take();
}

Program forward_only(int stages, int microbatches, int stage, int chunks) {
  expect_microbatches(microbatches);
  Writer w(stages, chunks, stage, stages * chunks);
  for (int begin = 0; begin < microbatches; begin += stages)
    for (int c = 0; c < chunks; ++c)
      for (int m = begin; m < std::min(begin + stages, microbatches); ++m) w.forward(m, c);
  return w.take();
}

Program training_program(const Pipeline& p, int microbatches, int stage, int first_trainable) {
  switch (p.schedule) {
    case ScheduleKind::one_f_one_b:
      return one_f_one_b(p.stages, microbatches, stage, first_trainable);
    case ScheduleKind::interleaved:
      return interleaved(p.stages, p.chunks, microbatches, stage, first_trainable);
    case ScheduleKind::zero_bubble:
      return zero_bubble(p.stages, microbatches, stage, p.weights, first_trainable);
  }
  fail("a schedule has no program");
}

Program forward_program(const Pipeline& p, int microbatches, int stage) {
  return forward_only(p.stages, microbatches, stage, p.chunks);
}

std::string pipeline_fault(ScheduleKind kind, std::int64_t stages, std::int64_t chunks,
                           std::int64_t microbatches) {
  if (kind != ScheduleKind::interleaved) {
    return chunks == 1 ? ""
                       : fmt::format(
                             "parallel.chunks = {} is of parallel.schedule = \"interleaved\": give "
                             "that, or leave parallel.chunks out",
                             chunks);
  }
  if (chunks == 1)
    return "parallel.schedule = \"interleaved\" needs parallel.chunks of 2 or more: the parts that "
           "each stage's layers are divided into";
  if (microbatches % stages == 0) return "";
  return fmt::format(
      "parallel.schedule = \"interleaved\" takes microbatches in groups of parallel.pipe = {}, and "
      "a step has {} of them on each data rank: train.batch / (train.microbatch * data ranks)",
      stages, microbatches);
}

std::string_view name_of(Do what) {
  constexpr std::string_view names[] = {"receive_activation", "forward",         "send_activation",
                                        "receive_gradient",   "backward",        "send_gradient",
                                        "input_gradients",    "weight_gradients"};
  return names[static_cast<int>(what)];
}

std::string describe(const Instruction& i) {
  return i.chunk == 0 ? fmt::format("{} {}", name_of(i.what), i.microbatch)
                      : fmt::format("{} {} of chunk {}", name_of(i.what), i.microbatch, i.chunk);
}

}  // namespace trireme
