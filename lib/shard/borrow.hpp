#pragma once
// The borrow plan of a pipeline program: which weights are gathered and which gradients are
// reduced, in order. A borrow is one use of a unit's weights or gradients by one part of the model
// for one micro-batch. (A unit is a set of parameters that are all-gathered together.) The plan is
// a pure function of the program, made before the program runs. Therefore every rank of a shard
// group issues the same collectives in the same order.
#include <span>
#include <vector>

#include "lib/model/model.hpp"
#include "lib/shard/policy.hpp"

namespace trireme {

// The forward or backward pass of one part of the model on one micro-batch.
struct Visit {
  std::span<const Borrow> units;
  int microbatch;
  bool weights;    // whether the pass reads the units' weights
  bool gradients;  // whether the pass adds to the units' gradients
};

// A gather of one unit's weights, which consists of one all-gather per segment of the unit.
struct GatherStep {
  UnitId unit;
  int microbatch;  // micro-batch of the first use
  int uses;        // number of borrows that read the gathered weights
  // If true, the gathered weights are kept until the program ends. If false, they are freed after
  // their last use.
  bool stays = false;
  bool operator==(const GatherStep&) const = default;
};

// Number of borrows that add to one unit's gradient. A tied embedding table has a separate gradient
// for each of its two uses.
struct GradientUse {
  UnitId unit;
  Use use;
  int borrows;
  bool operator==(const GradientUse&) const = default;
};

struct BorrowPlan {
  std::vector<GatherStep> gathers = {};  // in the order of their first uses
  // For each borrow of a unit's weights, in order, the index in `gathers` of the gather that the
  // borrow uses.
  std::vector<std::size_t> reads = {};
  std::vector<GradientUse> gradients = {};
  // If true, each gradient is reduced once, after its last borrow. If false, it is reduced after
  // every borrow.
  bool reduce_at_last = false;
  bool operator==(const BorrowPlan&) const = default;
};

// Returns the plan for a program's visits. Consecutive borrows of one unit use the same gather. If
// the policy gathers once a step, all borrows of a unit use the same gather.
BorrowPlan make_borrow_plan(std::span<const Visit>, const ZeroPolicy&);

}  // namespace trireme
