#pragma once
// How the state of a stage is spread: which ranks share one copy, which hold equal shards, and who
// answers for a shard where several hold it.
#include <optional>

#include "lib/comm/axes.hpp"
#include "lib/model/model.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/policy.hpp"

namespace trireme {

// Ranks that hold a part of a stage between them.
struct Sharers {
  Communicator gather, scatter;  // the ranks that share one copy
  Communicator replicas;         // the ranks that hold the same shard

  // Is what is kept all that there is? Then nothing is gathered, and sums are made in place.
  bool whole() const { return gather.size() == 1; }
};

// Default: one rank that holds everything.
struct Sharding {
  ZeroPolicy policy;
  Sharers stage, experts;      // experts: those with the same share of them
  std::optional<UnitId> tied;  // two parts borrow it
  // Where two stages do: the stages, the one that makes the other use, and the use made here.
  Communicator stages;
  int tied_stage = -1;
  Use tied_use = Use::own;

  // What of a segment this rank holds.
  Range own(const Segment& s) const {
    const auto& all = of(s).gather;
    return shard_range(s, all.rank(), all.size());
  }
  const Sharers& of(const Segment& s) const { return s.of_experts ? experts : stage; }
  bool is_tied(const Segment& s) const { return tied == s.unit; }
  bool tied_elsewhere(const Segment& s) const { return is_tied(s) && tied_stage >= 0; }
  // Is what its gradient comes to summed on this stage? Else another stage sends it.
  bool holds_sum(const Segment& s) const { return !tied_elsewhere(s) || tied_use == Use::own; }
  // Is this rank the one that reports what it holds of it?
  bool reports(const Segment& s) const { return of(s).replicas.rank() == 0 && holds_sum(s); }
};

// `last_stage`: the one with the model's last layers.
Sharding make_sharding(const ModelSpec&, const ZeroPolicy&, const Axes&, int last_stage);

}  // namespace trireme
