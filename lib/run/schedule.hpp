#pragma once
// The learning rate schedule. The function is pure.
#include "lib/run/config.hpp"

namespace trireme {

// Returns the learning rate in `step`, which counts from 0. The rate rises linearly to `peak` over
// warmup_steps. After that, it depends on the shape:
//   cosine, linear  Falls from `peak` in the first step after warmup to min_lr decay_steps later.
//                   Remains at min_lr afterwards. With decay_steps = 0, it reaches min_lr
//                   after the last step.
//   constant        Remains at `peak`.
//   wsd             Remains at `peak`, then falls linearly in the last decay_steps of the run, at
//                   most all steps after warmup. The step after the last one would have min_lr.
//                   With decay_steps = 0, the last tenth of the run is used.
// (wsd is warmup-stable-decay: Hu et al. 2024.)
double learning_rate(const ScheduleConfig&, double peak, std::int64_t step,
                     std::int64_t total_steps);

}  // namespace trireme
