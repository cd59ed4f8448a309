#pragma once
// Enumerates the configurations with which a model can run on a given number of ranks. They differ
// in grid, expert parallelism, ZeRO stage and cadences, pipeline schedule, micro-batch size and
// activation checkpointing.
#include <string>
#include <vector>

#include "lib/plan/plan.hpp"

namespace trireme {

// One configuration (choice) with which a model can run.
struct RunChoice {
  Grid grid;
  // Whether the model is a mixture of experts. Grid::expert is then part of the choice.
  bool mixture = false;
  // ZeRO stage. It is 0, or 3 with gather and reduce cadences: stage 1 is represented as stage 3
  // with gather and reduce once a step, and stage 2 as stage 3 with gather once a step.
  int zero_stage = 0;
  ZeroCadence gather = ZeroCadence::microbatch, reduce = ZeroCadence::microbatch;
  std::int64_t microbatch = 1;
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  bool operator==(const RunChoice&) const = default;
};

// Returns true if the choice is valid for the model and batch. The grid is assumed to be valid.
bool accepts(const PlanInput&, const RunChoice&);

// Returns all choices that the model and batch size permit on `ranks` ranks. The grid and settings
// in the input are ignored. `most_groups` is the maximum number of groups of sequence-parallel
// ranks among which positions are divided. It is limited because each group is simulated as a
// separate kind of rank.
std::vector<RunChoice> choices_of(const PlanInput&, std::int64_t ranks, int most_groups);

// A pipeline schedule and the number of chunks per stage.
struct ChunkedSchedule {
  ScheduleKind schedule;
  int chunks;
};
// Returns the schedules that are possible with `pipe` stages and `microbatches` micro-batches per
// step. Only powers of two are considered as numbers of chunks.
std::vector<ChunkedSchedule> schedules_of(const PlanInput&, int pipe, std::int64_t microbatches);

// Returns the number of micro-batches in a step.
std::int64_t microbatches_of(const PlanInput&, const RunChoice&);

// Returns a copy of the input whose grid and settings are those of the choice.
PlanInput input_of(const PlanInput&, const RunChoice&);

// Settings of a deck that are not part of a simulated choice. Command-line overrides must reset
// them.
struct SettingsToReset {
  bool stage_layers = false, shard = false, schedule = false;
  bool cadences = false;           // zero.gather or zero.reduce
  bool gather_type = false;        // zero.gather_type = "fp8", which stage 0 does not accept
  std::int64_t expert_tokens = 0;  // 0 means not set. Choices with expert parallelism keep it.
};
// Returns the choice as command-line overrides, such as "parallel.pipe=4 parallel.data=8 ...",
// followed by overrides that reset settings of the deck.
std::string overrides_of(const RunChoice&, const SettingsToReset& = {});
// Returns the overrides that change `from` to `to`, in addition to those of `from`. Both choices
// must have the same grid except for expert parallelism.
std::string changed_overrides(const RunChoice& from, const RunChoice& to, SettingsToReset = {});

}  // namespace trireme
