#pragma once
// Where each parameter lies: parameters -> segments (flat, contiguous, frozen together) -> shards.
// Pure. Decayed parameters come first in a segment, so an optimizer update is two flat ranges.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

struct Slot {
  ParamId param;
  std::int64_t begin, count;  // elements of the segment
};

struct Segment {
  UnitId unit;
  std::vector<Slot> slots;
  std::int64_t decayed = 0;   // weight decay applies to [0, decayed)
  std::int64_t elements = 0;  // with padding; a multiple of the group's size
};

struct Layout {
  // Slots begin on 64 bytes in the narrowest compute type.
  static constexpr std::int64_t alignment = 32;

  struct Where {
    std::size_t segment;
    Slot slot;
  };
  std::vector<Segment> segments;
  std::vector<Where> of_param;                    // by ParamId
  std::vector<std::vector<std::size_t>> of_unit;  // segments by UnitId
};

// One segment a unit, for a shard group of `group` ranks. `no_decay` are patterns (* and ?) of
// parameters that decay would otherwise apply to; one that matches nothing is an Error.
Layout make_layout(const ModelSpec&, std::int64_t group, const std::vector<std::string>& no_decay);

// * matches any run of characters, ? any one.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace trireme
