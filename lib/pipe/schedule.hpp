#pragma once
// In which order a pipeline's stages work: programs from a ScheduleKind. Pure. That the programs of
// all stages fit together and finish, and what they hold, is proven in tests/pipe.
#include <cstdint>
#include <string>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// What holds of all pipelines of a kind.
struct ScheduleTraits {
  std::int64_t fewest_chunks, most_chunks;  // that it runs on a stage
  Path path;
  bool groups;  // it takes microbatches in groups of as many as there are stages
  int full;     // after full * stages microbatches each stage works as it does from then on
  // Of two stages with the same work, does the earlier one hold as much as the other at least?
  bool earlier_holds_most;
};
const ScheduleTraits& traits_of(ScheduleKind);

// In all programs forward and backward run in microbatch order on every virtual stage, and so do
// weight gradients, so that they are summed in the same order whatever the schedule and the number
// of stages. Virtual stages before `first_trainable` run forward only and no gradient is sent to
// them; if it is the number of them, nothing is trained.
Program training_program(const Pipeline&, int microbatches, int stage, int first_trainable = 0);
// Evaluation and generation: every microbatch forward, nothing kept.
Program forward_program(const Pipeline&, int microbatches, int stage);

// By how many microbatches a stage may be ahead of another at most: what all say before one is here
// by so many later.
int most_ahead(const Pipeline&);
// The microbatches of the shortest step, of at most `microbatches`, that holds all that a longer
// one does.
std::int64_t microbatches_held(const Pipeline&, std::int64_t microbatches);

// The names of those that run so many chunks on a stage; of 2: "interleaved" or "zbv", in quotes.
std::string schedules_of_chunks(std::int64_t chunks);
// Why no schedule of this kind has these chunks or, where they are known, microbatches; or empty.
std::string pipeline_fault(ScheduleKind, std::int64_t stages, std::int64_t chunks,
                           std::int64_t microbatches = 0);

}  // namespace trireme
