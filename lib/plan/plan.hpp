#pragma once
// What a run will take and send, before it takes anything: each stage's real step on a backend that
// only keeps the account, with communicators that only count. Where the deck's rules freeze or thaw
// something on the way, a step of each of its states.
#include <optional>
#include <string>
#include <vector>

#include "kernels/dry/dry.hpp"
#include "lib/pipe/timeline.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

enum class PlanEvaluation : std::uint8_t { left_out, included };

struct PlanInput {
  TrainerSetup setup;
  TrainConfig train;  // batch, microbatch and length; no length: all that the rules have to come
  Grid grid;
  PlanEvaluation evaluation = PlanEvaluation::included;
  TransportKind transport = TransportKind::host;
  CommSettings comm{};  // the run's
};

// One rank's share. Memory is the most of all states, work and traffic are those of the step in
// which most is trained.
struct RankPlan {
  int rank = 0;
  Grid::At at;
  Account account;
  Axes::Traffic step_traffic;  // payload sent in one step
  double step_flops = 0;       // of products and attention in one step
  StageCost microbatch_flops{0, 0};
  int first_trainable_stage = 0;
  std::vector<std::string> races;  // accesses that nothing orders: a defect
};

struct Plan {
  std::vector<RankPlan> ranks;  // one of each kind: every stage, every share of heads
  std::int64_t parameters = 0, microbatches = 0;
  std::vector<std::int64_t> stage_blocks;
  Timeline timeline;  // of one step's programs, in FLOPs: as if all were done at one rate
  std::vector<std::int64_t> freeze_borders;  // steps in which other parameters are trained
  std::int64_t busiest_step = 0;             // where most is trained

  std::size_t most_reserved() const;
};

// Two steps (the second meets the memory that the first left), one more for each border, and an
// evaluation after each.
RankPlan plan_rank(const PlanInput&, const DryTarget&, int rank);
Plan make_plan(const PlanInput&, const DryTarget&);

// The bytes that a rank reserves, of a step with few microbatches: soon known, and nearly the whole
// step's. The order of accesses is not checked.
std::size_t reserved_by(PlanInput, DryTarget, int rank);
// What the ranks of a grid reserve at most, or nothing once one of them is above `limit`.
std::optional<std::size_t> reserved_within(const PlanInput&, const DryTarget&, std::size_t limit);

// A table for the terminal, and the same as JSON.
std::string plan_text(const Plan&, const PlanInput&, const DryTarget&);
std::string plan_json(const Plan&, const PlanInput&, const DryTarget&);

}  // namespace trireme
