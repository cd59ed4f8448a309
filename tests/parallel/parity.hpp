#pragma once
// The same training on a grid and on one rank. Every rank runs both; the grid's losses, norms and
// weights are held against the one rank's, weights by each rank for what it holds.
#include <ostream>
#include <string>
#include <vector>

#include "lib/train/trainer.hpp"

namespace trireme::test {

struct ParityCase {
  Grid grid;
  std::string flavour = "gpt2";  // gpt2 (12 kv heads, tied), llama (3, untied), gqa (3, tied)
  ZeroConfig zero;
  int microbatches = 2;  // of each data rank
  Recompute recompute = Recompute::none;
  double dropout = 0;
  OptimizerKind optimizer = OptimizerKind::sgd;
  std::vector<FreezeRule> freeze;
  std::vector<std::int64_t> stage_layers;
  std::string backend = "ref";
  DType compute = DType::f64, reduce = DType::f64;
  int steps = 5;
};
std::string name_of(const ParityCase&);
inline std::ostream& operator<<(std::ostream& out, const ParityCase& c) {
  return out << name_of(c);
}

// 8 layers, 12 query heads, 16 positions.
ModelConfig parity_model(const ParityCase&);
TrainerSetup parity_setup(const ParityCase&);
// The whole of microbatch `m` of data rank `d`: 16 samples a step over all. Masks are uneven; one
// sample in four has no valid target, one none in its first half.
Batch parity_batch(const ParityCase&, int step, int m, int d);
// This rank's microbatches of a step.
std::vector<Batch> parity_step(const ParityCase&, const Trainer&, int step);

// What a training came to.
struct Course {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> weights;  // by ParamId, whole
};
// On one rank, made once for all cases that train the same, on rank 0, and sent to the others.
const Course& one_rank_course(const ParityCase&);

// Trains and compares; failures are GoogleTest's. |a - b| <= bound * max(max |b|, 0.02).
void expect_parity(const ParityCase&, double bound);

// Every setting of every pair of factors at least once, for grids of that many ranks.
std::vector<ParityCase> pairwise_cases(int ranks);
// The whole product.
std::vector<ParityCase> all_cases(int ranks);

}  // namespace trireme::test
