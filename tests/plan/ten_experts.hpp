#pragma once
// A mixture whose experts, and heads, no grid shares out evenly.
#include "lib/plan/plan.hpp"
#include "tests/support/tiny.hpp"

namespace trireme::test {

// 10 experts, of which 120 tokens of a microbatch choose one each.
inline PlanInput ten_experts_on(const Grid& grid, int stage = 3) {
  PlanInput in;
  auto& m = in.setup.model;
  m = test::tiny_mixture();
  m.heads = m.kv_heads = 6;
  m.head_dim = 4;
  m.max_context = 120;
  m.experts = 10;
  m.experts_per_token = 1;
  in.setup.zero.stage = stage;
  in.setup.optimizer = test::adamw();
  in.grid = grid;
  in.train = {.batch = grid.data, .microbatch = 1, .steps = 1};
  in.evaluation = PlanEvaluation::left_out;
  return in;
}

}  // namespace trireme::test
