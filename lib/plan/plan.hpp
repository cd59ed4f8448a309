#pragma once
// Predicts the memory, traffic and work of a run. The plan executes each stage's real step on the
// `dry` backend, which counts memory but does not compute, with simulated communicators, which
// count bytes but do not send. If freeze rules change which parameters are trained, the plan
// executes one step for each set of trained parameters.
#include <optional>
#include <string>
#include <vector>

#include "kernels/dry/dry.hpp"
#include "lib/data/config.hpp"
#include "lib/pipe/timeline.hpp"
#include "lib/plan/document_lengths.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Whether the plan includes an evaluation after each step.
enum class PlanEvaluation : std::uint8_t { left_out, included };
// Whether the plan includes a copy of the training state, from which checkpoints are written while
// training continues.
enum class PlanSnapshot : std::uint8_t { left_out, included };

// Whether the run makes memory copies (checkpoint.memory_every).
enum class PlanCopies : std::uint8_t { left_out, included };

// The run to be planned.
struct PlanInput {
  TrainerSetup setup;
  // Batch, micro-batch and length of the run. A run without a length lasts until the last freeze
  // rule.
  TrainConfig train;
  Grid grid;
  PlanEvaluation evaluation = PlanEvaluation::included;
  // Whether training documents have weights in the loss (Batch::weight_BT).
  DocumentWeights document_weights = DocumentWeights::absent;
  TransportKind transport = TransportKind::host;
  CommSettings comm{};  // settings of the run
  PlanSnapshot snapshot = PlanSnapshot::left_out;
  PlanCopies copies = PlanCopies::left_out;
  // Device memory in bytes that run.device_headroom keeps free.
  std::size_t headroom = 0;
  // Number of consecutive ranks on each node. 0 if unknown.
  int ranks_of_node = 0;
  // Documents in the training samples, for predicted times. Memory does not depend on them.
  DocumentLengths documents{};
};

// Returns the bytes of memory that a rank reserves. This is memory on its device or, for a backend
// in host memory, host memory including pinned memory.
std::size_t memory_of(const Account&, const BackendProperties&);

// Device memory in bytes that a rank needs beyond its memory account: an estimate for NCCL, and
// run.device_headroom.
struct OutsideAccount {
  std::size_t nccl = 0, headroom = 0;
  std::size_t all() const { return nccl + headroom; }
};
// Estimates the device memory that one rank needs beyond its memory account.
OutsideAccount outside_account(const PlanInput&, const BackendProperties&, const Axes&);

// Returns the micro-batches of one rank in a step. They have the right number of tokens, but the
// ids are arbitrary.
std::vector<Batch> any_microbatches(const PlanInput&);
// Returns the step of the run that trains the most parameters.
std::int64_t busiest_step(const PlanInput&);

// Plan of one rank. Memory is the maximum over all planned steps. Work and traffic are those of the
// step that trains the most parameters.
struct RankPlan {
  int rank = 0;
  Grid::At at;
  // Number of experts per block that the rank holds.
  std::int64_t experts = 0;
  Account account;
  // Reserved bytes: the result of memory_of() for the account.
  std::size_t reserved = 0;
  OutsideAccount outside;
  std::size_t needed() const { return reserved + outside.all(); }
  // Upper limit for the bytes that the rank writes to a checkpoint.
  double checkpoint_bytes = 0;
  // The part of checkpoint_bytes that training changes (lib/train/snapshot.hpp).
  double changing_bytes = 0;
  // Upper limit for the bytes of memory copies in the memory file system of the rank's node, per
  // rank. Not part of `reserved`.
  double memory_copy_bytes = 0;
  // Payload in bytes that the rank sends in one step.
  Axes::Traffic step_traffic;
  // Part of step_traffic that goes to other nodes. Known only if the number of ranks per node is
  // known.
  Axes::Traffic to_other_nodes;
  // Number of messages in one step, before a device's transport combines messages.
  std::int64_t step_messages = 0;
  // FLOPs of matrix products and attention in one step.
  double step_flops = 0;
  // FLOPs per micro-batch, by chunk of layers.
  std::vector<StageCost> microbatch_flops;
  // Index of the first virtual stage with trained parameters.
  int first_trainable_stage = 0;
  // Memory accesses without a defined order (races). Each race is a bug in the program.
  std::vector<std::string> races;
};

// The plan of a run.
struct Plan {
  // The first rank of each kind (lib/plan/rank_kinds.hpp).
  std::vector<RankPlan> ranks;
  std::int64_t parameters = 0;
  // Number of parameters that the computation of one token uses.
  std::int64_t active_parameters = 0;
  std::int64_t microbatches = 0;
  // Number of blocks on each stage, in all its chunks.
  std::vector<std::int64_t> stage_blocks;
  // Timeline of one step's programs. Time is in FLOPs, as if all ranks computed at the same rate.
  Timeline timeline;
  // Freeze borders: steps that train a different set of parameters than the previous step.
  std::vector<std::int64_t> freeze_borders;
  // The step that trains the most parameters.
  std::int64_t busiest_step = 0;

  // Returns the largest `reserved` (or `needed()`) of all ranks.
  std::size_t most_reserved() const;
  std::size_t most_needed() const;
};

// Plans one rank. Two steps are executed, because the second step begins with the memory that the
// first step left reserved, and one more step for each freeze border. After each step, a checkpoint
// is planned, and an evaluation if the input includes one.
RankPlan plan_rank(const PlanInput&, const DryTarget&, int rank);
// Plans the first rank of each kind (lib/plan/rank_kinds.hpp).
Plan make_plan(const PlanInput&, const DryTarget&);

// Estimate of the bytes that a rank reserves, with and without the snapshot of the training state.
struct Reserved {
  std::size_t all = 0, without_snapshot = 0;
  OutsideAccount outside;
  double memory_copies = 0;  // RankPlan::memory_copy_bytes
};
// Returns a quick estimate of the bytes that a rank reserves, from a step with few micro-batches.
// Does not check the order of memory accesses.
Reserved reserved_by(PlanInput, DryTarget, int rank);
// Returns the maximum over all ranks of the estimate from reserved_by() plus the memory outside the
// account. Returns nullopt if a rank needs more than `limit` bytes.
std::optional<std::size_t> needed_within(const PlanInput&, const DryTarget&, std::size_t limit);

// Returns the bytes that a rank reserves for a model that is not trained: its weights and, if the
// input includes evaluation, the memory for evaluating a micro-batch.
std::size_t reserved_untrained(PlanInput, DryTarget, int rank);

// Format the plan: plan_text() as a table for a terminal, and plan_json() as JSON.
std::string plan_text(const Plan&, const PlanInput&, const DryTarget&);
std::string plan_json(const Plan&, const PlanInput&, const DryTarget&);

}  // namespace trireme
