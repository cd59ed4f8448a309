#pragma once
// The distribution of a stage's state over ranks: which ranks share one copy, which hold equal
// shards, and which one represents a shard that several ranks hold.
#include <optional>

#include "lib/comm/axes.hpp"
#include "lib/model/model.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/policy.hpp"

namespace trireme {

// Communicators of the ranks that together hold a part of a stage.
struct Sharers {
  Communicator gather, scatter;  // the ranks that share one copy
  Communicator replicas;         // the ranks that hold the same shard

  // Returns true if this rank holds the whole part. Then weights need no gather, and gradients are
  // summed in place.
  bool whole() const { return gather.size() == 1; }
};

// The distribution of a stage's state. The default is one rank that holds everything.
struct Sharding {
  ZeroPolicy policy;
  Sharers stage, experts;      // experts: the ranks that hold the same experts
  std::optional<UnitId> tied;  // the unit of tied embeddings, which two parts borrow
  // If two stages use the tied table: the communicator between stages, the other stage, and the use
  // made on this stage. Otherwise tied_stage is -1.
  Communicator stages;
  int tied_stage = -1;
  Use tied_use = Use::own;

  // Returns the elements of a segment that this rank holds.
  Range own(const Segment& s) const {
    const auto& all = of(s).gather;
    return shard_range(s, all.rank(), all.size());
  }
  const Sharers& of(const Segment& s) const { return s.of_experts ? experts : stage; }
  // Returns true for a segment of the tied embedding table.
  bool is_tied(const Segment& s) const { return tied == s.unit; }
  // Returns true if another stage uses the segment, too.
  bool tied_elsewhere(const Segment& s) const { return is_tied(s) && tied_stage >= 0; }
  // Returns true if this stage sums the segment's gradient, and false if it receives the sum from
  // another stage.
  bool holds_sum(const Segment& s) const { return !tied_elsewhere(s) || tied_use == Use::own; }
  // Returns true if this rank represents its part of the segment in checkpoints, norms and digests.
  // If several replicas or two stages hold a part, exactly one of them does.
  bool reports(const Segment& s) const { return of(s).replicas.rank() == 0 && holds_sum(s); }
};

// Returns the distribution for a policy and this rank's communicators. `last_stage` is the index of
// the stage with the model's last layers.
Sharding make_sharding(const ModelSpec&, const ZeroPolicy&, const Axes&, int last_stage);

}  // namespace trireme
