#pragma once
// The learning rate schedule. All functions are pure.
#include "lib/run/config.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// A step of a run: the points before and after it, and the end of the run.
struct StepOfRun {
  RunPoint before, after, end;
};
// Returns a step, which counts from 0, of a run with `total_steps` steps.
StepOfRun step_of_run(const BatchRamp&, std::int64_t step, std::int64_t total_steps);

// Returns true if the lengths of the schedule are in tokens instead of steps.
bool counts_tokens(const ScheduleConfig&);
// Returns the number of completed steps or tokens, in the unit of the schedule.
std::int64_t in_unit(const ScheduleConfig&, RunPoint);
// Returns schedule.warmup_steps or warmup_tokens, and decay_steps or decay_tokens.
std::int64_t warmup_of(const ScheduleConfig&);
std::int64_t decay_of(const ScheduleConfig&);
const std::vector<std::int64_t>& decay_ends_of(const ScheduleConfig&);

// Returns the learning rate of a step. All lengths are in the unit of the schedule. The rate rises
// linearly to `peak` over the warmup. After that, it depends on the shape:
//   cosine, linear  Falls from `peak` in the first step after the warmup to min_lr when `decay`
//                   is over. Remains at min_lr afterwards. With decay = 0, it reaches min_lr after
//                   the last step.
//   constant        Remains at `peak`.
//   wsd             Remains at `peak`, then falls linearly in the last part of the run, whose
//                   length is `decay`, at most all of it after the warmup. The step after the last
//                   one would have min_lr. With decay = 0, the last tenth of the run is used.
//                   At each of `decay_ends`, the rate ends as at the end of a run of this length,
//                   and then returns to `peak`. Training continues from the decayed weights.
// (wsd is warmup-stable-decay: Hu et al. 2024. With decay ends it is WSD-S: Wen et al. 2024,
// "Understanding warmup-stable-decay learning rates", here with a linear decay.)
double learning_rate(const ScheduleConfig&, double peak, const StepOfRun&);

// Returns true if one of `decay_ends` or the end of the run is in this step. Returns false if there
// are no `decay_ends`.
bool ends_decay(const ScheduleConfig&, const StepOfRun&);
// Returns the number of completed steps at each of `decay_ends`. If the schedule counts tokens,
// ends before the beginning of the ramp are replaced by its beginning.
std::vector<std::int64_t> steps_of_decay_ends(const ScheduleConfig&, const BatchRamp&);
// Returns the number of `decay_ends` strictly between two points of a run.
std::int64_t decays_between(const ScheduleConfig&, RunPoint begin, RunPoint end);

}  // namespace trireme
