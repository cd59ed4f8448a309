#pragma once
// What a training step sends, and what its model's state takes, as formulas: what a plan finds by
// running the step and counting follows from these shapes, to the byte. Pure.
//
//   N ranks share one copy of a stage's weights, R such copies; n_u = a shard of unit u with its
//   padding; M microbatches of t positions a rank; e = bytes an element
//   shards      (N-1) * sum over units of n_u * (e_gather * gathers + e_reduce * scatters), and
//               (R-1) / R * n_u * (e_reduce + e_master) between copies. In fp8 e_gather is 1, and
//               once a step each rank sends 4 bytes for each tile of 128 x 128 weights in the rows
//               of tiles of its shard, or as many as the rank with the most
//   seq         tests/support/sequence_formulas.hpp
//   pipe        t * width * e a message; a table that two stages use: n_u * e_master each way
//   matrices    tests/support/matrix_traffic.hpp, of optimizers that see them whole
//   experts     tests/support/mixture_formulas.hpp; a share of them has an N and an R of its own
//   FLOPs       2 a weight of a product and token, attention's causal half, and twice that backward
#include "lib/comm/axes.hpp"
#include "tests/support/rank_step.hpp"

namespace trireme {

// Payload that leaves the rank in the step.
Axes::Traffic step_traffic(const RankStep&);
// Of products and attention, where nothing is frozen and the optimizer is not Shampoo.
double step_flops(const RankStep&);

// The most bytes that the step holds, in the account's kinds.
struct StateBytes {
  std::size_t weights = 0;    // master shards, compute copies, the rotary table
  std::size_t optimizer = 0;  // moments and averages
  std::size_t gradients = 0;  // shards, and whole units on their way
  std::size_t gathered = 0;   // whole units
  bool operator==(const StateBytes&) const = default;
};
StateBytes state_bytes(const RankStep&);

}  // namespace trireme
