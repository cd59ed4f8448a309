#pragma once
// Programs of all stages, and every schedule that the properties are tested on.
#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "lib/pipe/schedule.hpp"
#include "tests/support/route.hpp"

namespace trireme {

inline std::vector<Program> training_programs(const Pipeline& p, int microbatches, int first = 0) {
  std::vector<Program> programs;
  for (int s = 0; s < p.stages; ++s)
    programs.push_back(training_program(p, microbatches, s, first));
  return programs;
}
// Of 1F1B.
inline std::vector<Program> training_programs(int stages, int microbatches, int first = 0) {
  return training_programs(Pipeline{.stages = stages}, microbatches, first);
}

inline std::vector<Program> forward_programs(const Pipeline& p, int microbatches) {
  std::vector<Program> programs;
  for (int s = 0; s < p.stages; ++s) programs.push_back(forward_program(p, microbatches, s));
  return programs;
}
inline std::vector<Program> forward_programs(int stages, int microbatches) {
  return forward_programs(Pipeline{.stages = stages}, microbatches);
}

inline Route route_of(const Pipeline& p) {
  return p.schedule == ScheduleKind::zbv ? fold_of(p.stages) : ring_of(p.stages, p.chunks);
}

// A wrong schedule: a gradient leaves only after the next input has arrived. It needs one buffer
// more; with buffers taken in turn the input would overwrite the gradient.
inline std::vector<Program> gradients_sent_late(std::vector<Program> programs) {
  for (Program& p : programs) {
    for (std::size_t i = 0; i + 1 < p.size(); ++i) {
      if (p[i].what == Do::send_gradient && p[i + 1].what == Do::receive_activation) {
        std::swap(p[i], p[i + 1]);
      }
    }
  }
  return programs;
}

struct Schedule {
  Pipeline pipe;
  int microbatches, first;  // first: the first trainable virtual stage
  std::vector<Program> programs;

  Schedule(const Pipeline& p, int m, int f)
      : pipe(p), microbatches(m), first(f), programs(training_programs(p, m, f)) {}
  bool is(ScheduleKind kind) const { return pipe.schedule == kind; }
  Route route() const { return route_of(pipe); }
  // Inputs that a stage holds: those it runs ahead by, or one that it only passes on.
  int inputs(int stage) const {
    if (is(ScheduleKind::interleaved)) return inputs_of_chunks(stage);
    if (is(ScheduleKind::zbv)) return inputs_of_a_fold(stage);
    return stage < first ? 1 : std::min(pipe.stages - stage, microbatches);
  }
  // Microbatches that wait for their weight gradients; the one at work is one of them.
  int weights(int stage) const {
    if (is(ScheduleKind::zbv)) return weights_of_a_fold(stage);
    if (!is(ScheduleKind::zero_bubble) || stage <= first) return 0;
    const int late = pipe.weights == WeightGradients::late ? stage - first : 0;
    return std::min(late + 1, microbatches);
  }
  // Activations that have arrived and wait: one at a time, but where a stage works at what was sent
  // later.
  int arriving(int stage) const {
    const bool ahead = is(ScheduleKind::zbv) && stage > 0 && stage < pipe.stages - 1;
    return ahead ? 2 : 1;
  }
  // Stages with messages in both directions between them, and more than one microbatch.
  bool alternates() const { return pipe.stages - first >= 2 && microbatches >= 2; }

 private:
  // Narayanan et al. 2021: in the time of 2 * (stages - stage - 1) forwards of a chunk the first
  // gradient comes back, after all chunks but the last have run ahead by a group. Of chunks that do
  // not train only the input at work is held.
  int inputs_of_chunks(int stage) const {
    const int chunks = pipe.chunks, group = pipe.stages * chunks, all = microbatches * chunks;
    const auto trains = [&](int chunk) { return chunk * pipe.stages + stage >= first; };
    const int ahead = 2 * (pipe.stages - stage - 1) + (chunks - 1) * pipe.stages;
    int held = 0, most = 0;
    for (int i = 0; i < all; ++i) {
      const int forward = i % group / pipe.stages;
      most = std::max(most, held + 1);
      held += trains(forward) ? 1 : 0;
      if (i >= ahead && trains(chunks - 1 - (i - ahead) % group / pipe.stages)) --held;
    }
    return most;
  }
  // Qi et al. 2024: a stage fills 2 * stages places with inputs of both chunks. Going down a
  // microbatch comes to it first after those before it, so that a step that is too short to fill
  // them has all of chunk 0 and what the later stages sent back meanwhile. One more has come in
  // before the gradient that was sent before it.
  int inputs_of_a_fold(int stage) const {
    const int p = pipe.stages, m = microbatches;
    if (2 * p - 1 - stage < first) return 1;
    if (stage >= first)
      return std::min(m + 1 + std::min(stage, m - 1), 2 * p + (stage > 0 ? 1 : 0));
    return std::min(stage + 1, m) + (stage > 0 && m >= 2 * p - stage ? 1 : 0);
  }
  // At the end, where chunk 0 trains somewhere, a stage makes `stage` gradients of inputs in each
  // chunk, for those who wait, before weight gradients; as far as a short step has so many.
  int weights_of_a_fold(int stage) const {
    const int p = pipe.stages, m = microbatches;
    if (2 * p - 1 - stage < first) return 0;
    if (pipe.weights == WeightGradients::at_once || first >= p) return 1;
    const int down = stage < first ? 0 : std::clamp(m - p + 1, 0, stage + 1);
    const int back = std::max(stage - std::max(2 * p - 1 - m, 0), 0);
    return std::max(down + back, 1);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Schedule& s) {
  return out << name_of(s.pipe.schedule)
             << (s.pipe.weights == WeightGradients::late ? "" : " (at once)") << ", "
             << s.pipe.stages << " stages of " << s.pipe.chunks << " chunks, " << s.microbatches
             << " microbatches, first " << s.first;
}

// All schedules with stages 1-8 x microbatches up to two groups of them and one, and 16;
// interleaved with chunks 2-4 and the microbatches that it takes; each with every first trainable
// stage (none: forward only).
template <class F>
void for_each_schedule(F test) {
  using enum ScheduleKind;
  for (int stages = 1; stages <= 8; ++stages) {
    std::vector<Pipeline> pipes = {
        {one_f_one_b, stages},
        {zero_bubble, stages},
        {zero_bubble, stages, 1, WeightGradients::at_once},
        {zbv, stages, 2},
        {zbv, stages, 2, WeightGradients::at_once},
    };
    for (int chunks = 2; chunks <= 4; ++chunks) pipes.push_back({interleaved, stages, chunks});
    for (const auto& p : pipes) {
      for (int microbatches = 1; microbatches <= 16; ++microbatches) {
        if (microbatches > 2 * stages + 1 && microbatches < 16) continue;
        if (!pipeline_fault(p.schedule, stages, p.chunks, microbatches).empty()) continue;
        for (int first = 0; first <= p.virtual_stages(); ++first)
          test(Schedule(p, microbatches, first));
      }
    }
  }
}

}  // namespace trireme
