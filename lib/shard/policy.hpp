#pragma once
// The meaning of zero.stage (ZeRO, Rajbhandari et al. 2020). N ranks share one copy of a stage's
// state. N is the number of data x seq ranks or, if it is set, zero.shard. With zero.shard, there
// are several groups of N ranks, which are replicas of each other.
//
// - zero.stage = 0: every rank keeps the whole state (N = 1) and is a replica of the others.
//   Gradients are summed once a step, each unit's as soon as the last micro-batch has added to it.
// - zero.stage = 1: a rank keeps one Nth (a shard) of each segment's master weights, gradients and
//   optimizer state. Whole weights are gathered once per program and kept until it ends. Gradients
//   are summed once a step.
// - zero.stage = 2: like 1, but gradients are summed for every micro-batch.
// - zero.stage = 3: like 2, but weights are gathered for each use. zero.gather = "step" and
//   zero.reduce = "step" choose the behavior of stage 1.
//
// Unsummed gradients occupy memory as whole segments. If gradients are summed for every
// micro-batch, these are the segments in use and zero.scatters segments in flight. Otherwise they
// are all segments that the step has used. Gathers run zero.prefetch units ahead of their use.
//
// Gradients are sent in the type precision.reduce. Each sender rounds once: to the rank that owns
// the shard, and then to the replica that sums it. Sums are sent in the master type, both back to
// all replicas and between the stages of a tied table.
#include "lib/base/dtype.hpp"
#include "lib/comm/grid.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// Settings that follow from zero.stage and related keys.
struct ZeroPolicy {
  int sharers = 1;  // N, the ranks that share one copy of the state
  ZeroCadence gather_every = ZeroCadence::step, reduce_every = ZeroCadence::step;
  int prefetch = 1, scatters = 1;  // units in flight
  // Type in which gradients are sent: precision.reduce if it is narrower than the master type,
  // otherwise the master type.
  DType reduce = DType::f32;
  bool operator==(const ZeroPolicy&) const = default;
};

// Returns the policy for a configuration and grid. `compute` and `reduce` are the types of
// precision.compute and precision.reduce. Throws Error if zero.stage is not 0, 1, 2 or 3.
ZeroPolicy zero_policy(const ZeroConfig&, const Grid&, DType compute, DType reduce);
// Returns the size of shard groups for zero.shard = "node": the largest size with which every group
// is within one node. Each node runs `ranks_of_node` consecutive ranks.
std::int64_t shard_ranks_within_node(const Grid&, std::int64_t ranks_of_node);
// Returns ZeroPolicy::sharers for a configuration and grid: the number of ranks that share one copy
// of the state.
int shard_ranks(const ZeroConfig&, const Grid&);

}  // namespace trireme
