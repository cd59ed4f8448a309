#pragma once
// What mixtures of experts send and compute in a step where all experts are chosen as often. Pure.
//
//   R rows of a microbatch on each of e ranks, which K of E experts are chosen for: experts below x
//   have floor(R x / E) of them, so share d, experts [a, b), has n_d = floor(R b / E) - floor(R a /
//   E) rows of each rank. Rank r sends, a layer and microbatch, with C channels of b bytes and
//   weights of w bytes:
//     forward   (e-1) * E * 8 to say how many;  sum over d != r of n_d * (C b + w) to the experts,
//               (e-1) * n_r * C b back
//     backward  sum over d != r of n_d * C b to them, (e-1) * n_r * (w + C b) back; C b where the
//               gradient of their input is wanted; what came after a first round comes again
#include "tests/support/rank_step.hpp"

namespace trireme {

// Forward passes and backward ones of a part in the step, with what is computed again.
struct Passes {
  std::int64_t forward = 0, backward = 0;
};
Passes passes_of(const RankStep&, const StagePart&);
// The block that a part is; null: it is none.
const BlockParams* block_of(const RankStep&, const StagePart&);

std::int64_t expert_traffic(const RankStep&);
// Over seq, of how many of each sample's tokens chose each expert.
std::int64_t choices_traffic(const RankStep&);
// Of the rows of a microbatch on this rank's experts, in one block.
struct ExpertRows {
  std::int64_t all = 0, later = 0;  // of them, not in the first round
};
ExpertRows expert_rows(const RankStep&);

}  // namespace trireme
