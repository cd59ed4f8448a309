#pragma once
// What one rank does in a training step, as plain values from the deck's settings alone: what
// formulas of traffic and memory start from. Pure.
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/comm/grid.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// A part of the model on this stage.
struct StagePart {
  std::vector<Borrow> units;
  bool reads_in_backward;    // the units' weights
  bool gradient_in_forward;  // else in backward
  int chunk = 0;
  bool trains = false;
  bool needed = false;       // in backward: it or what comes before it trains
  bool passes_down = false;  // what comes before it trains
};

// A part at work on a microbatch: does it read its units' weights, does it add to their gradients?
struct Turn {
  std::size_t part;
  bool weights, gradients;
};

// What one rank does in a step.
struct RankStep {
  ModelSpec spec;
  Grid grid;
  Grid::At at;
  Layout layout;  // of this stage's units
  Program program;
  std::vector<StagePart> parts;  // of all its chunks
  std::vector<Turn> turns;       // in the order of the program
  // Ranks that share one copy of the weights, and copies; the same of a share of the experts.
  struct Sharers {
    std::int64_t ranks = 1, copies = 1;
  };
  Sharers stage, experts;
  const Sharers& of(const Segment& g) const { return g.of_experts ? experts : stage; }
  bool gather_once = false, reduce_once = false;  // a step; else for each use, each microbatch
  std::int64_t prefetch = 1, scatters = 1;
  std::int64_t context = 0;                 // tokens of a sample
  std::int64_t samples = 0, positions = 0;  // of a microbatch; on this rank
  DType compute = DType::f32, master = DType::f32;
  DType reduce = DType::f32;  // what gradients travel as
  // Moments that the optimizer keeps, and averages, as long as the weights; the moments of weights
  // that are updated as matrices are formulas of their own (matrix_traffic.hpp).
  std::int64_t state_arrays = 2, averages = 0;
  std::optional<MatrixOptimizer> matrices;
  Recompute recompute = Recompute::none;
  bool in_chunks = false;               // what stands before and behind attention
  std::vector<std::uint8_t> trainable;  // by ParamId
  bool counts_samples = false;          // choices of experts, for a loss by sample
  std::int64_t rows_of_round = 0;       // parallel.expert_tokens
  std::int64_t key_tile = 64;           // of the backend: keys come in whole ones
};
// Does the parameter train, or an adapter beside it? False for one that the model has not.
bool trains(const RankStep&, ParamId);
// Step `setup.first_step` as Trainer runs it; microbatch and grid are decided.
RankStep rank_step(const TrainerSetup&, const TrainConfig&, const Grid&, int rank);

}  // namespace trireme
