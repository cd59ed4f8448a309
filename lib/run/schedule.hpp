#pragma once
// Learning rate by step, pure.
#include "lib/run/config.hpp"

namespace trireme {

// Linear warm-up to `peak` over warmup_steps, then by shape down to min_lr:
//   cosine, linear  from the peak in the first step after warm-up to min_lr decay_steps later (0:
//                   behind the last step of the run), then min_lr
//   constant        peak
//   wsd             peak, then linear: each of the last decay_steps (0: the last tenth) of the run,
//                   at most all after warm-up, is lower than the one before, and the step behind
//                   the last would have min_lr
// (warmup-stable-decay: Hu et al. 2024). `step` counts from 0.
double learning_rate(const ScheduleConfig&, double peak, std::int64_t step,
                     std::int64_t total_steps);

}  // namespace trireme
