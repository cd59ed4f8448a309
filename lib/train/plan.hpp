#pragma once
// What a run will take, before it takes anything: the real step on a backend that only keeps the
// account.
#include <string>
#include <vector>

#include "kernels/dry/dry.hpp"
#include "lib/model/config.hpp"
#include "lib/train/config.hpp"

namespace trireme {

enum class PlanEvaluation : std::uint8_t { left_out, included };

struct PlanInput {
  ModelConfig model;  // resolved, vocab known
  OptimizerConfig optimizer;
  TrainConfig train;  // batch and microbatch
  DType compute = DType::f32;
  PlanEvaluation evaluation = PlanEvaluation::included;
};

struct Plan {
  Account account;
  std::int64_t parameters = 0, microbatches = 0;
  double step_flops = 0;           // of products and attention in one step
  std::vector<std::string> races;  // accesses that nothing orders: a defect
};

// Two steps (the second meets the memory that the first left) and an evaluation on one rank.
Plan make_plan(const PlanInput&, const DryTarget&);

// A table for the terminal, and the same as JSON.
std::string plan_text(const Plan&, const PlanInput&, const DryTarget&);
std::string plan_json(const Plan&, const DryTarget&);

}  // namespace trireme
