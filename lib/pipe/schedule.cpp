#include "lib/pipe/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

// The computations of one stage, under construction. Backward passes are omitted if nothing is
// trained in them.
class StageWork {
 public:
  StageWork(const Pipeline& p, int stage, int first_trainable)
      : pipe_(p), stage_(stage), first_trainable_(first_trainable) {}

  void forward(int m, int chunk = 0) { program_.push_back({Do::forward, m, chunk}); }
  void backward(int m, int chunk = 0) { add({Do::backward, m, chunk}); }
  void input_gradients(int m, int chunk = 0) { add({Do::input_gradients, m, chunk}); }
  void weight_gradients(int m, int chunk = 0) { add({Do::weight_gradients, m, chunk}); }
  Program take() { return std::move(program_); }

 private:
  void add(const Instruction& i) {
    if (pipe_.virtual_stage(stage_, i.chunk) >= first_trainable_) program_.push_back(i);
  }

  const Pipeline& pipe_;
  int stage_, first_trainable_;
  Program program_;
};

// The schedules. Each function returns the computations of one stage.

// One forward, one backward (PipeDream-flush: Narayanan et al. 2021, "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", section 2.2). A stage starts stages -
// stage - 1 micro-batches ahead and then alternates. It therefore holds at most min(stages - stage,
// microbatches) inputs.
Program one_f_one_b(const Pipeline& p, int microbatches, int stage, int first) {
  StageWork w(p, stage, first);
  const int ahead = std::min(p.stages - stage - 1, microbatches);
  for (int i = 0; i < microbatches + ahead; ++i) {
    if (i < microbatches) w.forward(i);
    if (i >= ahead) w.backward(i - ahead);
  }
  return w.take();
}

// ZB-H1 (Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.2): 1F1B with the backward
// pass in two halves. Weight gradients are computed `stage` micro-batches late, counted from the
// first stage that is trained. They fill the time in which later stages would wait for inputs, and
// gradients reach earlier stages sooner. The schedule holds as many inputs as 1F1B. For each
// micro-batch whose weight gradients are late, it also holds the tensors that they need. The first
// stage that is trained sends no gradient, so its backward pass is not divided.
Program zero_bubble(const Pipeline& p, int microbatches, int stage, int first) {
  if (stage <= first) return one_f_one_b(p, microbatches, stage, first);
  StageWork w(p, stage, first);
  const int ahead = std::min(p.stages - stage - 1, microbatches);
  const int late = p.weights == WeightGradients::late ? stage - first : 0;
  for (int i = 0; i < microbatches + ahead; ++i) {
    if (i < microbatches) w.forward(i);
    if (i >= ahead) w.input_gradients(i - ahead);
    if (i >= ahead + late) w.weight_gradients(i - ahead - late);
  }
  for (int m = std::max(microbatches - late, 0); m < microbatches; ++m) w.weight_gradients(m);
  return w.take();
}

// Interleaved 1F1B (Narayanan et al. 2021, section 2.2). Micro-batches pass through all chunks in
// groups as large as the pipeline. A stage starts 2 * (stages - stage - 1) + (chunks - 1) * stages
// forward passes of a chunk ahead and then alternates.
Program interleaved(const Pipeline& p, int microbatches, int stage, int first) {
  expect(microbatches % p.stages == 0, "microbatches are a multiple of the stages");
  StageWork w(p, stage, first);
  const int all = microbatches * p.chunks, group = p.virtual_stages();
  const int ahead = std::min(2 * (p.stages - stage - 1) + (p.chunks - 1) * p.stages, all);
  // Micro-batch and chunk of the i-th forward pass. Backward passes use the chunks in reverse
  // order.
  const auto microbatch = [&](int i) { return i / group * p.stages + i % p.stages; };
  const auto chunk = [&](int i) { return i % group / p.stages; };
  for (int i = 0; i < all + ahead; ++i) {
    if (i < all) w.forward(microbatch(i), chunk(i));
    if (const int b = i - ahead; b >= 0) w.backward(microbatch(b), p.chunks - 1 - chunk(b));
  }
  return w.take();
}

// ZB-V (Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 6; Qi, Wan, Huang and Lin 2024,
// "Pipeline Parallelism with Controllable Memory"). Each stage has two chunks, which are folded
// like a V. The first stage therefore also has the last layers, and each half of a micro-batch's
// path ends on the stage where the next half begins. If forward pass, input gradients and weight
// gradients take the same time, no stage idles between its first and its last work. Each stage
// holds the inputs of 2 * stages chunks, as much as the first stage of 1F1B. A step with fewer than
// 2 * stages - 1 micro-batches uses the schedule of that many and omits the missing micro-batches.
Program zbv(const Pipeline& p, int microbatches, int stage, int first) {
  StageWork w(p, stage, first);
  const int all = std::max(microbatches, 2 * p.stages - 1);
  // Number of forward passes, input gradients and weight gradients so far, by chunk.
  std::array<int, 2> f{}, i{}, g{};
  const auto forward = [&](int c) {
    if (const int m = f[c]++; m < microbatches) w.forward(m, c);
  };
  const auto weights = [&](int c) {
    if (g[c] == i[c]) return;
    if (const int m = g[c]++; m < microbatches) w.weight_gradients(m, c);
  };
  const auto inputs = [&](int c) {
    if (const int m = i[c]++; m < microbatches) w.input_gradients(m, c);
    if (p.weights == WeightGradients::at_once) weights(c);
  };
  if (first >= p.stages) {  // nothing in chunk 0 is trained: 1F1B in chunk 1
    const int ahead = std::min(2 * (p.stages - stage) - 1, microbatches);
    for (int n = 0; n < ahead; ++n) forward(0);
    for (int n = 0; n < microbatches + stage; ++n) {
      if (n < microbatches) forward(1);
      if (n >= stage) inputs(1), weights(1);
      if (n + ahead < microbatches) forward(0);
    }
    return w.take();
  }
  // First chunk 0 alone, then both chunks, then the first gradients.
  for (int n = 0; n < 2 * (p.stages - stage) - 1; ++n) forward(0);
  for (int n = 0; n < stage; ++n) forward(1), forward(0);
  for (int n = 0; n < p.stages - stage; ++n) forward(1), inputs(1), weights(1);
  while (f[1] < all) {
    if (f[0] < all) forward(0);
    inputs(0), weights(0);
    forward(1), inputs(1), weights(1);
  }
  // Compute first the gradients that other stages wait for.
  for (int n = 0; n < stage; ++n) inputs(0), inputs(1);
  for (int n = 0; n < p.stages - stage; ++n) inputs(0), weights(0);
  for (const int c : {1, 0})
    while (g[c] < i[c]) weights(c);
  return w.take();
}

Program forward_only(const Pipeline& p, int microbatches, int stage) {
  StageWork w(p, stage, p.virtual_stages());
  for (int begin = 0; begin < microbatches; begin += p.stages)
    for (int c = 0; c < p.chunks; ++c)
      for (int m = begin; m < std::min(begin + p.stages, microbatches); ++m) w.forward(m, c);
  return w.take();
}

struct Schedule {
  ScheduleTraits traits;
  Program (*work)(const Pipeline&, int microbatches, int stage, int first_trainable);
};

constexpr std::int64_t any_number = std::numeric_limits<std::int64_t>::max();

const Schedule& schedule_of(ScheduleKind k) {
  static constexpr Schedule one{{1, 1, Path::ring, false, 1, true}, one_f_one_b};
  static constexpr Schedule in_chunks{{2, any_number, Path::ring, true, 2, false}, interleaved};
  static constexpr Schedule halves{{1, 1, Path::ring, false, 1, false}, zero_bubble};
  static constexpr Schedule folded{{2, 2, Path::fold, false, 2, false}, zbv};
  switch (k) {
    case ScheduleKind::one_f_one_b:
      return one;
    case ScheduleKind::interleaved:
      return in_chunks;
    case ScheduleKind::zero_bubble:
      return halves;
    case ScheduleKind::zbv:
      return folded;
  }
  fail("a schedule has no program");
}

void expect_microbatches(int microbatches) {
  expect(microbatches >= 0, "a program has no negative number of microbatches");
}

}  // namespace

const ScheduleTraits& traits_of(ScheduleKind k) {
  return schedule_of(k).traits;
}

Program training_program(const Pipeline& p, int microbatches, int stage, int first_trainable) {
  expect_microbatches(microbatches);
  auto* const work = schedule_of(p.schedule).work;
  return with_messages(p, stage, first_trainable,
                       [&](int s) { return work(p, microbatches, s, first_trainable); });
}

Program forward_program(const Pipeline& p, int microbatches, int stage) {
  expect_microbatches(microbatches);
  return with_messages(p, stage, p.virtual_stages(),
                       [&](int s) { return forward_only(p, microbatches, s); });
}

int most_ahead(const Pipeline& p) {
  return traits_of(p.schedule).path == Path::fold ? 2 * p.stages - 1 : p.stages;
}

std::int64_t microbatches_held(const Pipeline& p, std::int64_t microbatches) {
  const auto& t = traits_of(p.schedule);
  return std::min<std::int64_t>(microbatches, (t.full + 1) * p.stages + (t.groups ? 0 : 2));
}

std::string schedules_of_chunks(std::int64_t chunks) {
  std::vector<std::string> names;
  for (const auto kind : all_values<ScheduleKind>())
    if (const auto& t = traits_of(kind); t.fewest_chunks <= chunks && chunks <= t.most_chunks)
      names.push_back(fmt::format("\"{}\"", name_of(kind)));
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string pipeline_fault(ScheduleKind kind, std::int64_t stages, std::int64_t chunks,
                           std::int64_t microbatches) {
  const auto& t = traits_of(kind);
  if (chunks > t.most_chunks && t.most_chunks == 1)
    return fmt::format(
        "parallel.chunks = {} does not work with parallel.schedule = \"{}\": use {}, or remove "
        "parallel.chunks",
        chunks, name_of(kind), schedules_of_chunks(chunks));
  if (chunks < t.fewest_chunks || chunks > t.most_chunks)
    return fmt::format(
        "parallel.schedule = \"{}\" needs parallel.chunks of {}, the number of parts into which "
        "the layers of each stage are divided",
        name_of(kind),
        t.fewest_chunks == t.most_chunks ? fmt::format("{}", t.fewest_chunks)
                                         : fmt::format("{} or more", t.fewest_chunks));
  if (!t.groups || microbatches % stages == 0) return "";
  return fmt::format(
      "parallel.schedule = \"{}\" needs a multiple of parallel.pipe = {} microbatches per step, "
      "but each data rank has {}: batch / (train.microbatch * data ranks)",
      name_of(kind), stages, microbatches);
}

}  // namespace trireme
