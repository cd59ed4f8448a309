#pragma once
// The distribution of a stage's state over ranks: which ranks share one copy, which ranks hold
// equal shards, and which rank reports a shard that several ranks hold.
#include <optional>

#include "lib/comm/axes.hpp"
#include "lib/model/model.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/policy.hpp"

namespace trireme {

// Communicators of the ranks that share the parameters of a stage or of its experts.
struct Sharers {
  Communicator gather, scatter;  // the ranks that share one copy
  Communicator replicas;         // the ranks that hold the same shard

  // Returns true if this rank holds a whole copy. Then weights need no gather, and gradients are
  // summed in place.
  bool whole() const { return gather.size() == 1; }
};

// The distribution of a stage's state. By default, one rank holds everything.
struct Sharding {
  ZeroPolicy policy;
  Sharers stage, experts;      // experts: the ranks that hold the same experts
  std::optional<UnitId> tied;  // the unit of tied embeddings, which two parts borrow
  // The communicator between stages. It is used if two stages use the tied embedding table.
  // `tied_stage` is then the other stage and `tied_use` is this stage's use of the table. Otherwise
  // tied_stage is -1.
  Communicator stages;
  int tied_stage = -1;
  Use tied_use = Use::own;

  // Returns the elements of a segment that this rank holds.
  Range own(const Segment& s) const {
    const auto& all = of(s).gather;
    return shard_range(s, all.rank(), all.size());
  }
  // Returns the elements that this rank holds of a flat array of the segment with another length.
  Range own(const Segment& s, std::int64_t elements) const {
    const auto& all = of(s).gather;
    return shard_range(elements, all.rank(), all.size());
  }
  const Sharers& of(const Segment& s) const { return s.of_experts ? experts : stage; }
  // Returns true for a segment of the tied embedding table.
  bool is_tied(const Segment& s) const { return tied == s.unit; }
  // Returns true if another stage also uses the segment.
  bool tied_elsewhere(const Segment& s) const { return is_tied(s) && tied_stage >= 0; }
  // Returns true if this stage sums the segment's gradient, and false if it receives the sum from
  // another stage.
  bool holds_sum(const Segment& s) const { return !tied_elsewhere(s) || tied_use == Use::own; }
  // Returns true if this rank reports its part of the segment in checkpoints, norms and digests. If
  // several replicas or two stages hold the part, exactly one of the ranks reports it.
  bool reports(const Segment& s) const { return of(s).replicas.rank() == 0 && holds_sum(s); }
};

// Returns the distribution for a policy and this rank's communicators. `last_stage` is the index of
// the stage with the model's last layers.
Sharding make_sharding(const ModelSpec&, const ZeroPolicy&, const Axes&, int last_stage);

}  // namespace trireme
