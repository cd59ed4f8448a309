#pragma once
// What one program borrows of a store, in order. Pure: derived before the program runs, so that
// every rank of a shard group issues the same collectives in the same order.
#include <span>
#include <vector>

#include "lib/model/model.hpp"
#include "lib/shard/policy.hpp"

namespace trireme {

// A part at work on a microbatch.
struct Visit {
  std::span<const Borrow> units;
  int microbatch;
  bool weights;    // are the units' weights read?
  bool gradients;  // are gradients of the units added?
};

// One all-gather for each segment of the unit.
struct GatherStep {
  UnitId unit;
  int microbatch;      // of the first use
  int uses;            // borrows that read it
  bool stays = false;  // to the end of the program; else to the last use
  bool operator==(const GatherStep&) const = default;
};

// How many borrows add to this unit's gradient for this use.
struct GradientUse {
  UnitId unit;
  Use use;
  int borrows;
  bool operator==(const GradientUse&) const = default;
};

struct BorrowPlan {
  std::vector<GatherStep> gathers = {};  // in the order of their first uses
  std::vector<std::size_t> reads =
      {};  // by borrow of a unit's weights, in order: the gather it reads
  std::vector<GradientUse> gradients = {};
  bool reduce_at_last = false;  // gradients leave after the last borrow of a use; else after each
  bool operator==(const BorrowPlan&) const = default;
};

// Borrows of one unit in a row share a gather; where units are gathered once a step, all of them
// do.
BorrowPlan make_borrow_plan(std::span<const Visit>, const ZeroPolicy&);

}  // namespace trireme
