#pragma once
// The learning rate schedule. Pure.
#include "lib/run/config.hpp"

namespace trireme {

// Returns the learning rate in `step`, which counts from 0. It rises linearly to `peak` over
// warmup_steps, and then falls to min_lr according to the shape:
//   cosine, linear  from the peak in the first step after warmup to min_lr decay_steps later, then
//                   min_lr; decay_steps = 0 reaches min_lr after the last step of the run
//   constant        peak
//   wsd             peak, then linear: each of the last decay_steps of the run is lower than the
//   step
//                   before, and the step after the last one would have min_lr; decay_steps = 0
//                   means the last tenth; at most all steps after warmup
// (warmup-stable-decay: Hu et al. 2024).
double learning_rate(const ScheduleConfig&, double peak, std::int64_t step,
                     std::int64_t total_steps);

}  // namespace trireme
