#pragma once
// Pipeline schedules: the order of each stage's work, for each ScheduleKind. The functions are
// pure. tests/pipe verifies that the programs of all stages terminate, and checks how much each
// stage keeps in memory.
#include <cstdint>
#include <string>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// Properties of a kind of schedule.
struct ScheduleTraits {
  std::int64_t fewest_chunks, most_chunks;  // allowed chunks per stage
  Path path;
  bool groups;  // processes micro-batches in groups of as many as there are stages
  int full;     // after full * stages micro-batches, each stage is in its steady state
  // True if the earlier of two stages with equal work needs at least as much memory as the later
  // stage.
  bool earlier_holds_most;
};
const ScheduleTraits& traits_of(ScheduleKind);

// Returns the program of one stage for a training step. On each virtual stage, the forward passes
// run in micro-batch order, and so do the backward passes and the weight gradients. Gradients are
// therefore summed in the same order for all schedules and numbers of stages. Virtual stages before
// `first_trainable` run only the forward pass and receive no gradients. If `first_trainable` is the
// number of virtual stages, nothing is trained.
Program training_program(const Pipeline&, int microbatches, int stage, int first_trainable = 0);
// Returns the program of one stage for evaluation or generation, which runs the forward pass of
// every micro-batch and stores no activations.
Program forward_program(const Pipeline&, int microbatches, int stage);

// Returns the maximum number of micro-batches by which one stage may be ahead of another. If all
// stages contribute to a decision before micro-batch m, the result is available before micro-batch
// m + most_ahead().
int most_ahead(const Pipeline&);
// Returns the number of micro-batches, at most `microbatches`, that a step needs to reach its
// maximum memory use. Longer steps need no more memory.
std::int64_t microbatches_held(const Pipeline&, std::int64_t microbatches);

// Returns the names of the schedules that support this number of chunks per stage, in quotes and
// joined by "or".
std::string schedules_of_chunks(std::int64_t chunks);
// Returns an error message if the schedule does not support these numbers of chunks or
// micro-batches. Returns an empty string if there is no error. `microbatches` = 0 means that the
// number is unknown.
std::string pipeline_fault(ScheduleKind, std::int64_t stages, std::int64_t chunks,
                           std::int64_t microbatches = 0);

}  // namespace trireme
