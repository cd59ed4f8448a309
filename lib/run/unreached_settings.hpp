#pragma once
// Finds settings that a run never reaches, or reaches too late, because of its length.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/run/config.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// Returns a sentence without a period for each such setting: the end of train.batch_ramp, steps in
// train.skip_steps, decays of schedule.decay_end_steps that have too little room, and an average of
// train.ema that still consists of the first weights when the run ends. The run continues from
// `begin`. The texts of the settings must be valid.
std::vector<std::string> unreached_settings(const TrainConfig&, const ScheduleConfig&,
                                            std::int64_t context, RunPoint begin);

}  // namespace trireme
