#pragma once
// Predicts a run's memory, traffic and work: runs each stage's real step on the `dry` backend,
// which only keeps the account, with pretended communicators, which only count. Where the deck's
// rules freeze or thaw parameters, it runs a step of each state.
#include <optional>
#include <string>
#include <vector>

#include "kernels/dry/dry.hpp"
#include "lib/pipe/timeline.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

enum class PlanEvaluation : std::uint8_t { left_out, included };
// Is there a copy of the state that checkpoints are written from while training goes on?
enum class PlanSnapshot : std::uint8_t { left_out, included };

struct PlanInput {
  TrainerSetup setup;
  TrainConfig train;  // batch, microbatch and length; no length: up to the last freeze rule
  Grid grid;
  PlanEvaluation evaluation = PlanEvaluation::included;
  TransportKind transport = TransportKind::host;
  CommSettings comm{};  // the run's
  PlanSnapshot snapshot = PlanSnapshot::left_out;
  std::size_t headroom = 0;  // bytes of a device that run.device_headroom keeps free
  int ranks_of_node = 0;     // consecutive ones; 0: not known
};

// Bytes of its machine's memory that a rank reserves: the device's, or the host's with all that is
// pinned there.
std::size_t memory_of(const Account&, const BackendProperties&);

// Bytes of its device that a rank leaves to others: NCCL's, estimated, and run.device_headroom.
struct OutsideAccount {
  std::size_t nccl = 0, headroom = 0;
  std::size_t all() const { return nccl + headroom; }
};
OutsideAccount outside_account(const PlanInput&, const BackendProperties&, const Axes&);

// What a rank gets in a step: as many tokens as its share has, of any ids.
std::vector<Batch> any_microbatches(const PlanInput&);
// The step of the run that trains most.
std::int64_t busiest_step(const PlanInput&);

// One rank. Memory is the maximum over all states; work and traffic are those of the step that
// trains most parameters.
struct RankPlan {
  int rank = 0;
  Grid::At at;
  std::int64_t experts = 0;  // of a block that it holds
  Account account;
  std::size_t reserved = 0;  // as memory_of(account) says
  OutsideAccount outside;
  std::size_t needed() const { return reserved + outside.all(); }
  double checkpoint_bytes = 0;              // that it writes, at most
  Axes::Traffic step_traffic;               // payload sent in one step
  Axes::Traffic to_other_nodes;             // of it, where a node's ranks are known
  std::int64_t step_messages = 0;           // that carry it, before a device's transport joins them
  double step_flops = 0;                    // of products and attention in one step
  std::vector<StageCost> microbatch_flops;  // by chunk
  int first_trainable_stage = 0;            // a virtual one
  std::vector<std::string> races;           // unordered accesses: a defect
};

struct Plan {
  std::vector<RankPlan> ranks;  // one of each kind (lib/plan/rank_kinds.hpp)
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;  // that a token meets
  std::int64_t microbatches = 0;
  std::vector<std::int64_t> stage_blocks;  // of all chunks of each stage
  Timeline timeline;  // of one step's programs, in FLOPs: as if all ran at one rate
  std::vector<std::int64_t> freeze_borders;  // steps that train other parameters than the last did
  std::int64_t busiest_step = 0;             // the one that trains most

  std::size_t most_reserved() const;
  std::size_t most_needed() const;
};

// Two steps (the second starts with the memory state that the first left), one more for each
// border; after each an evaluation and a checkpoint.
RankPlan plan_rank(const PlanInput&, const DryTarget&, int rank);
Plan make_plan(const PlanInput&, const DryTarget&);

struct Reserved {
  std::size_t all = 0, without_snapshot = 0;
  OutsideAccount outside;
};
// A quick estimate of the bytes that a rank reserves, from a step with few microbatches and without
// checking the order of accesses.
Reserved reserved_by(PlanInput, DryTarget, int rank);
// The most that a rank of the grid needs by that estimate; none if one is above `limit`.
std::optional<std::size_t> needed_within(const PlanInput&, const DryTarget&, std::size_t limit);

// Bytes that a rank reserves for a model that is not trained: its weights, and where the input has
// one an evaluation of its microbatch.
std::size_t reserved_untrained(PlanInput, DryTarget, int rank);

// A table for the terminal, and the same as JSON.
std::string plan_text(const Plan&, const PlanInput&, const DryTarget&);
std::string plan_json(const Plan&, const PlanInput&, const DryTarget&);

}  // namespace trireme
