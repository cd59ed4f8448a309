#pragma once
// Programs of all stages, and every schedule that the properties are tested on.
#include <algorithm>
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
  int stages, microbatches, first;  // first: the first trainable stage
  std::vector<Program> programs;

  // Inputs that a stage holds: those it runs ahead by, or one that it only passes on.
  int inputs(int stage) const { return stage < first ? 1 : std::min(stages - stage, microbatches); }
  // Stages with messages in both directions between them, and more than one microbatch.
  bool alternates() const { return stages - first >= 2 && microbatches >= 2; }
};

// Stages 1-12 x microbatches 1-24, each with every first trainable stage (none: forward only).
template <class F>
void for_each_schedule(F test) {
  for (int stages = 1; stages <= 12; ++stages) {
    for (int microbatches = 1; microbatches <= 24; ++microbatches) {
      for (int first = 0; first <= stages; ++first) {
        test(Schedule{stages, microbatches, first, training_programs(stages, microbatches, first)});
      }
    }
  }
}

}  // namespace trireme
