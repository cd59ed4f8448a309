#pragma once
// The borrow plan of one pipeline program: which weights it gathers and which gradients it reduces,
// in order. A borrow is one use of a unit's weights or gradients by one part of the model for one
// micro-batch. The plan is a pure function of the program and is made before the program runs, so
// that every rank of a shard group issues the same collectives in the same order.
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

// A gather of one unit's weights: one all-gather per segment of the unit.
struct GatherStep {
  UnitId unit;
  int microbatch;  // micro-batch of the first use
  int uses;        // number of borrows that read the gathered weights
  // True keeps the weights until the program ends. False frees them after the last use.
  bool stays = false;
  bool operator==(const GatherStep&) const = default;
};

// The number of borrows that add to one unit's gradient. A tied table has a separate gradient for
// each of its two uses.
struct GradientUse {
  UnitId unit;
  Use use;
  int borrows;
  bool operator==(const GradientUse&) const = default;
};

struct BorrowPlan {
  std::vector<GatherStep> gathers = {};  // in the order of their first uses
  // Index into `gathers` for each borrow of a unit's weights, in the order of the borrows.
  std::vector<std::size_t> reads = {};
  std::vector<GradientUse> gradients = {};
  // True reduces a gradient once, after its last borrow. False reduces it after every borrow.
  bool reduce_at_last = false;
  bool operator==(const BorrowPlan&) const = default;
};

// Returns the plan for a program's visits. Consecutive borrows of one unit share a gather. If the
// policy gathers once a step, all borrows of a unit share one gather.
BorrowPlan make_borrow_plan(std::span<const Visit>, const ZeroPolicy&);

}  // namespace trireme
