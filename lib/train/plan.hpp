#pragma once
// What a run will take and send, before it takes anything: each stage's real step on a backend that
// only keeps the account, with communicators that only count.
#include <string>
#include <vector>

#include "kernels/dry/dry.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

enum class PlanEvaluation : std::uint8_t { left_out, included };

struct PlanInput {
  TrainerSetup setup;
  TrainConfig train;  // batch and microbatch
  Grid grid;
  PlanEvaluation evaluation = PlanEvaluation::included;
};

// One rank's share.
struct RankPlan {
  int rank = 0;
  Grid::At at;
  Account account;
  Axes::Traffic step_traffic;      // payload sent in one step
  double step_flops = 0;           // of products and attention in one step
  std::vector<std::string> races;  // accesses that nothing orders: a defect
};

struct Plan {
  std::vector<RankPlan> ranks;  // one of each kind: every stage, every share of heads
  std::int64_t parameters = 0, microbatches = 0;
  std::vector<std::int64_t> stage_blocks;

  std::size_t most_reserved() const;
};

// Two steps (the second meets the memory that the first left) and an evaluation.
RankPlan plan_rank(const PlanInput&, const DryTarget&, int rank);
Plan make_plan(const PlanInput&, const DryTarget&);

// A table for the terminal, and the same as JSON.
std::string plan_text(const Plan&, const PlanInput&, const DryTarget&);
std::string plan_json(const Plan&, const PlanInput&, const DryTarget&);

}  // namespace trireme
