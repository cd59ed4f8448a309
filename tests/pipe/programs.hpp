#pragma once
// Programs of all stages, and every schedule that the properties are tested on.
#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "lib/pipe/schedule.hpp"

namespace trireme {

inline std::vector<Program> training_programs(int stages, int microbatches, int first = 0) {
  std::vector<Program> programs;
  for (int s = 0; s < stages; ++s) {
    programs.push_back(one_f_one_b(stages, microbatches, s, first));
  }
  return programs;
}

inline std::vector<Program> forward_programs(int stages, int microbatches) {
  std::vector<Program> programs;
  for (int s = 0; s < stages; ++s) programs.push_back(forward_only(stages, microbatches, s));
  return programs;
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

  Schedule(const Pipeline& p, int m, int f) : pipe(p), microbatches(m), first(f) {
    for (int s = 0; s < p.stages; ++s) programs.push_back(training_program(p, m, s, f));
  }
  bool is(ScheduleKind kind) const { return pipe.schedule == kind; }
  // Inputs that a stage holds: those it runs ahead by, or one that it only passes on.
  int inputs(int stage) const {
    if (is(ScheduleKind::interleaved)) return inputs_of_chunks(stage);
    return stage < first ? 1 : std::min(pipe.stages - stage, microbatches);
  }
  // Microbatches that wait for their weight gradients; the one at work is one of them.
  int weights(int stage) const {
    if (!is(ScheduleKind::zero_bubble) || stage <= first) return 0;
    const int late = pipe.weights == WeightGradients::late ? stage - first : 0;
    return std::min(late + 1, microbatches);
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
};

inline std::ostream& operator<<(std::ostream& out, const Schedule& s) {
  const char* names[] = {"1F1B", "interleaved", "zero bubble"};
  return out << names[static_cast<int>(s.pipe.schedule)]
             << (s.pipe.weights == WeightGradients::late ? "" : " (at once)") << ", "
             << s.pipe.stages << " stages of " << s.pipe.chunks << " chunks, " << s.microbatches
             << " microbatches, first " << s.first;
}

// 1F1B and zero bubble with stages 1-8 x microbatches 1-16, interleaved also with chunks 2-4 and
// the microbatches that it takes; each with every first trainable stage (none: forward only).
template <class F>
void for_each_schedule(F test) {
  using enum ScheduleKind;
  for (int stages = 1; stages <= 8; ++stages) {
    std::vector<Pipeline> pipes = {
        {one_f_one_b, stages},
        {zero_bubble, stages},
        {zero_bubble, stages, 1, WeightGradients::at_once},
    };
    for (int chunks = 2; chunks <= 4; ++chunks) pipes.push_back({interleaved, stages, chunks});
    for (const auto& p : pipes) {
      for (int microbatches = 1; microbatches <= 16; ++microbatches) {
        if (!pipeline_fault(p.schedule, stages, p.chunks, microbatches).empty()) continue;
        for (int first = 0; first <= p.virtual_stages(); ++first)
          test(Schedule(p, microbatches, first));
      }
    }
  }
}

}  // namespace trireme
