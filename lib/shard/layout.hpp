#pragma once
// Where each parameter lies: parameters -> segments (flat, contiguous, frozen together) -> shards.
// Pure. Decayed parameters come first in a segment, so an optimizer update is two flat ranges.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

struct Slot {
  ParamId param;
  std::int64_t begin, count;  // elements of the segment
};

// Elements [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end > begin ? end - begin : 0; }
  bool operator==(const Range&) const = default;
};
Range intersection(Range, Range);

struct Segment {
  UnitId unit;
  std::vector<Slot> slots;
  std::int64_t decayed = 0;                        // weight decay applies to [0, decayed)
  std::int64_t elements = 0;                       // with padding; ranks have whole aligned parts
  LearnsFrom learns_from = LearnsFrom::gradients;  // nothing: there is no master weight
  bool wide = false;                               // weights are computed with in the wide type
  BaseType kept = BaseType::compute;               // and lie in memory as this says (kept.hpp)
  bool of_experts = false;                         // of a share of them: other ranks hold the rest
  std::string name;  // its unit's, and which part of it where there are several
};

// Slots of a segment begin on multiples of it: on 64 bytes in the narrowest compute type, and of
// what is kept in records (kernels/nf4.hpp) with one.
std::int64_t alignment_of(const Segment&);

struct Layout {
  static constexpr std::int64_t alignment = 32;  // the least

  struct Where {
    std::size_t segment, number;  // of its slots
    Slot slot;
  };
  std::vector<Segment> segments;
  std::vector<std::optional<Where>> of_param;     // by ParamId; none: lies on another stage
  std::vector<std::vector<std::size_t>> of_unit;  // segments by UnitId
};

struct LayoutInput {
  std::vector<UnitId> units;  // those of this stage
  std::int64_t ranks = 1;     // of data x seq: every segment's length divides among them
  // Patterns (* and ?) of parameters that decay would otherwise apply to, and of parameters that
  // freeze: those of a unit that the same freeze patterns name make one segment. One that matches
  // no parameter of the whole model is an Error.
  std::vector<std::string> no_decay, freeze;
  int expert_rank = 0, expert_ranks = 1;  // of those that hold a stage's experts between them
};
Layout make_layout(const ModelSpec&, const LayoutInput&);

// All units of a model, in order.
std::vector<UnitId> all_units(const ModelSpec&);

// What of a segment rank `rank` of a shard group of `group` owns.
Range shard_range(const Segment&, std::int64_t rank, std::int64_t group);

}  // namespace trireme
