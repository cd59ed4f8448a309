#pragma once
// What zero.stage means (Rajbhandari et al. 2020). N ranks share one copy of a stage's state: all
// of data x seq, or groups of zero.shard of them, which are then replicas of each other.
//
// - zero.stage = 0: every rank keeps all of it (N = 1) and is a replica of the others. Gradients
//   are summed once a step, a unit's as soon as the last microbatch has added to it.
// - zero.stage = 1: a rank keeps one Nth, a shard, of each segment's master weights, gradients
//   and optimizer state. Whole weights are gathered once a program and stay until its end.
//   Gradients are summed once a step.
// - zero.stage = 2: as 1, but gradients are summed every microbatch.
// - zero.stage = 3: as 2, but weights are gathered for each use; zero.gather = "step" and
//   zero.reduce = "step" choose as 1 does.
//
// Until they are summed, whole gradients of what a microbatch met are kept as well: with "every
// microbatch" those being made and zero.scatters on their way, else all of them. A gather runs
// zero.prefetch units ahead of its use.
//
// Gradients travel to the rank that sums them as precision.reduce says, rounded once by each that
// sends, to the shard's rank and then to the replica that sums it; sums travel on (back to all
// replicas, between the stages of a tied table) in the master type.
#include "lib/base/dtype.hpp"
#include "lib/comm/grid.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

struct ZeroPolicy {
  int sharers = 1;  // N
  ZeroCadence gather_every = ZeroCadence::step, reduce_every = ZeroCadence::step;
  int prefetch = 1, scatters = 1;  // units in flight
  DType reduce = DType::f32;       // precision.reduce, as far as the master type can travel so
  bool operator==(const ZeroPolicy&) const = default;
};

ZeroPolicy zero_policy(const ZeroConfig&, const Grid&, DType compute, DType reduce);
// What zero.shard = "node" comes to: the most ranks of a stage that lie on one node everywhere,
// where nodes run as many consecutive ranks each.
std::int64_t shard_ranks_within_node(const Grid&, std::int64_t ranks_of_node);
// Its sharers.
int shard_ranks(const ZeroConfig&, const Grid&);

}  // namespace trireme
