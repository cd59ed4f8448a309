#pragma once
// What ranks of seq send and compute for attention in a step. Pure.
//
//   rank r with hq(r) of H query and hk(r) key/value heads, a layer and microbatch of t positions a
//   rank, D = head dim, where N ranks share out heads:
//     forward   t * D * [(H - hq(r)) + 2 * sum over d != r of hk(d) + (N-1) * hq(r)]
//     backward  t * D * [(H - hq(r)) + (N-1) * (hq(r) + 2 * hk(r))]
//   and, where there are several such groups, keys and values to those that see them, forward and
//   backward, and their gradients back
#include "tests/support/rank_step.hpp"

namespace trireme {

std::int64_t seq_traffic(const RankStep&);
// Of one product of this rank's queries and the keys that they see, which forward has two of and
// backward five. Of the triangle of pairs a window leaves out the smaller one behind it.
double attention_flops_of(const RankStep&, std::int64_t layer);

}  // namespace trireme
