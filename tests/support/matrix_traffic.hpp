#pragma once
// What a step of an optimizer that sees whole matrices sends and computes on a rank, and what state
// it keeps, as formulas over the plan of owners (lib/shard/matrix_plan.hpp). Pure.
//
//   a matrix m of K <= L rows and columns, of which this rank holds h elements; e = bytes an
//   element of the compute type; E = of the master type
//   sends         h e to the owner; or (K L - h) e to the others, if this rank is the owner
//   squares       the same of each of Shampoo's, with E
//   FLOPs         of the owner of a matrix of Muon: 5 (4 K^2 L + 2 K^3)
#include "tests/support/rank_step.hpp"

namespace trireme {

std::int64_t matrix_traffic(const RankStep&);
double muon_flops(const RankStep&);
// Returns the bytes of optimizer state on this rank for a segment of matrices, without averages.
std::size_t matrix_state_bytes(const RankStep&, const Segment&);

}  // namespace trireme
