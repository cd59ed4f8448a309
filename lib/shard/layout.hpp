#pragma once
// The layout of parameters in memory. Each unit is divided into segments: flat, contiguous arrays
// of parameters that freeze together. Each segment is divided into one shard per rank. Parameters
// with weight decay come first in a segment, so an optimizer update covers two flat ranges. All
// functions are pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

// The place of one parameter in its segment.
struct Slot {
  ParamId param;
  std::int64_t begin, count;  // in elements of the segment
};

// The elements [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end > begin ? end - begin : 0; }
  bool operator==(const Range&) const = default;
};
// Returns the common elements. The count is 0 if there are none.
Range intersection(Range, Range);

// A flat array that holds the parameters of a unit that freeze together. One all-gather or
// reduce-scatter moves the whole segment.
struct Segment {
  UnitId unit;
  std::vector<Slot> slots;
  std::int64_t decayed = 0;  // weight decay applies to elements [0, decayed)
  // Including padding, so that the ranks' shards have equal length and are aligned.
  std::int64_t elements = 0;
  // LearnsFrom::nothing means that there are no master weights.
  LearnsFrom learns_from = LearnsFrom::gradients;
  bool wide = false;                  // weights are computed with in the master type
  BaseType kept = BaseType::compute;  // storage type of frozen base weights (kept.hpp)
  bool of_experts = false;            // holds some of the experts; other ranks hold the rest
  // The unit's name. If the unit has several segments, the second and later names add a segment
  // number.
  std::string name;
};

// Returns the alignment of the segment's slots in elements. It is 32 (64 bytes in the narrowest
// compute type), or the weights of one record if the segment is stored in NF4 records
// (kernels/nf4.hpp).
std::int64_t alignment_of(const Segment&);

// The segments of a stage and the place of every parameter in them.
struct Layout {
  static constexpr std::int64_t alignment = 32;  // smallest alignment of a slot, in elements

  struct Where {
    std::size_t segment, number;  // index of the segment, and of the slot in it
    Slot slot;
  };
  std::vector<Segment> segments;
  // Indexed by ParamId; empty if another stage holds it.
  std::vector<std::optional<Where>> of_param;
  std::vector<std::vector<std::size_t>> of_unit;  // segments of each unit, indexed by UnitId
};

// Everything that make_layout() needs besides the model.
struct LayoutInput {
  std::vector<UnitId> units;  // units of this stage
  std::int64_t ranks = 1;     // size of data x seq; every segment's length is a multiple of it
  // Name patterns with wildcards * and ?. `no_decay` exempts parameters from weight decay.
  // Parameters of a unit that match the same `freeze` patterns share a segment. A pattern that
  // matches no parameter of the whole model is an Error.
  std::vector<std::string> no_decay, freeze;
  // Rank in, and size of, the group that together holds all experts.
  int expert_rank = 0, expert_ranks = 1;
};
// Returns the layout of this rank's share of the stage. Throws Error if a pattern matches no
// parameter.
Layout make_layout(const ModelSpec&, const LayoutInput&);

// Returns all units of a model, in order.
std::vector<UnitId> all_units(const ModelSpec&);

// Returns the elements of a segment that rank `rank` of a shard group of `group` ranks owns.
Range shard_range(const Segment&, std::int64_t rank, std::int64_t group);

}  // namespace trireme
