#pragma once
// Determines the length of a run from its deck and the checkpoint that it resumes from. All
// functions are pure.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// Returns the number of steps in the whole run: train.steps if it is set, otherwise the completed
// steps plus the steps for the remaining tokens.
std::int64_t steps_of_run(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

// Returns the batches of the steps that follow this checkpoint.
BatchRamp ramp_after(const CheckpointMeta&, const TrainConfig&, std::int64_t context);
// Returns the step, counted from 0, that contains a sample after this checkpoint. The ramp begins
// at the checkpoint.
std::int64_t step_of_sample(const BatchRamp&, const CheckpointMeta&, std::int64_t sample);

// Throws Error if a run from this checkpoint would process more samples or tokens than the counters
// can represent exactly (2^53).
void require_countable(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

// Returns the first sample of each [[phase]] section, for a run that continues from this
// checkpoint. For a section that is due at the checkpoint or before it, the result is the
// checkpoint's number of samples.
std::vector<std::int64_t> first_samples_of_phases(const DataConfig&, const TrainConfig&,
                                                  const CheckpointMeta&);
// The beginning of a [[phase]] section.
struct PhaseBorder {
  std::size_t section = 0;  // index in DataConfig::phases
  std::int64_t step = 0;    // step that contains its first sample, counted from 0
  bool operator==(const PhaseBorder&) const = default;
};
// Returns the beginnings of the sections that have not begun before the checkpoint.
std::vector<PhaseBorder> borders_of_phases(const DataConfig&, const TrainConfig&,
                                           const CheckpointMeta&);

// A part of a run that reads from one phase: its samples, and what its steps have in common.
struct PhaseExtent {
  std::int64_t first_sample = 0, end_sample = 0;  // end_sample is the first one after it
  std::int64_t first_step = 0;                    // step that contains first_sample, counted from 0
  std::int64_t largest_batch = 0;                 // of its steps
  bool operator==(const PhaseExtent&) const = default;
};
// Returns the parts of the rest of a run, in order: what remains of the phase at the checkpoint,
// and then the [[phase]] sections that begin before the end of the run.
std::vector<PhaseExtent> extents_of_phases(const DataConfig&, const TrainConfig&,
                                           const CheckpointMeta&);

}  // namespace trireme
