#pragma once
// The layout of parameters in memory. Each unit is divided into segments: flat, contiguous arrays
// of parameters that freeze together. Each segment is divided into one shard per rank. Parameters
// that the optimizer's rule for matrices updates are last in a segment. The other parameters have
// more optimizer state, so the first rank, whose shard has no padding, holds the most state. Of
// each kind, parameters with weight decay are first, so that updates cover few flat ranges. All
// functions are pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// Location of one parameter in its segment.
struct Slot {
  ParamId param;
  std::int64_t begin, count;  // in elements of the segment
  bool decays = false;        // has weight decay
};

// A half-open range [begin, end) of elements.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end > begin ? end - begin : 0; }
  bool operator==(const Range&) const = default;
};
// Returns the elements that both ranges contain. The count is 0 if there are none.
Range intersection(Range, Range);
// Returns true if the range contains the element, or all elements of another range.
bool contains(Range, std::int64_t element);
bool contains(Range, Range);

// A flat array that holds the parameters of a unit that freeze together. One all-gather or
// reduce-scatter transfers the whole segment.
struct Segment {
  UnitId unit;
  std::vector<Slot> slots;
  // Number of elements, including padding that makes the ranks' shards equally long and aligned.
  std::int64_t elements = 0;
  // The optimizer's rule for matrices updates the elements from this one on. All elements before it
  // are updated element by element.
  std::int64_t matrices_begin = 0;
  Range matrices() const { return {matrices_begin, elements}; }
  Range others() const { return {0, matrices_begin}; }
  // How the segment's parameters are trained. A segment with LearnsFrom::nothing has no master
  // weights.
  LearnsFrom learns_from = LearnsFrom::gradients;
  bool wide = false;                  // computations use the weights in the master type
  BaseType kept = BaseType::compute;  // storage type of frozen base weights (kept.hpp)
  bool of_experts = false;            // holds some of the experts; other ranks hold the rest
  bool sent_in_fp8 = false;           // gathered in fp8 for training (encoded_shards.hpp)
  // The unit's name. If the unit has several segments, a number is appended to the names of the
  // second and later segments.
  std::string name;
};

// Returns the alignment of the segment's slots in elements. If the segment is stored in NF4 records
// (kernels/nf4.hpp), the alignment is the number of weights in a record. Otherwise it is 32 (64
// bytes in the narrowest compute type).
std::int64_t alignment_of(const Segment&);

// The segments of a pipeline stage, and the location of every parameter in them.
struct Layout {
  static constexpr std::int64_t alignment = 32;  // smallest alignment of a slot, in elements

  struct Where {
    std::size_t segment, number;  // index of the segment, and of the slot in it
    Slot slot;
  };
  std::vector<Segment> segments;
  // Locations indexed by ParamId. Empty if another stage holds the parameter.
  std::vector<std::optional<Where>> of_param;
  std::vector<std::vector<std::size_t>> of_unit;  // segments of each unit, indexed by UnitId
};

// Inputs of make_layout() besides the model.
struct LayoutInput {
  std::vector<UnitId> units;  // units of this stage
  std::int64_t ranks = 1;     // size of data x seq; every segment's length is a multiple of it
  // Name patterns with wildcards * and ?. `no_decay` exempts parameters from weight decay.
  // Parameters of a unit that match the same `freeze` patterns share a segment. make_layout()
  // throws Error if a pattern matches no parameter of the whole model.
  std::vector<std::string> no_decay, freeze;
  // This rank's index in the group that together holds all experts, and the size of that group.
  int expert_rank = 0, expert_ranks = 1;
  GatherType gather_type = GatherType::compute;
  // By ParamId: 1 if the optimizer's rule for matrices updates the parameter (matrices.hpp). Empty
  // if the optimizer has no such rule.
  std::vector<std::uint8_t> as_matrices{};
};
// Returns true if zero.gather_type = "fp8" applies to a parameter: computations use it only as an
// operand of products in fp8. Excludes weights below DoRA adapters, whose norms are computed from
// the weights, tied embeddings, and weights in NF4, which are smaller than in fp8.
bool can_be_sent_in_fp8(const ModelSpec&, ParamId);
// Returns the layout of the parameters in this rank's stage. Of the experts, it contains only those
// that this rank holds. Throws Error if a pattern matches no parameter.
Layout make_layout(const ModelSpec&, const LayoutInput&);

// Returns all units of a model, in order.
std::vector<UnitId> all_units(const ModelSpec&);

// Returns the elements that rank `rank` of a shard group of `group` ranks owns, of a flat array
// with `elements` elements or of a segment.
Range shard_range(std::int64_t elements, std::int64_t rank, std::int64_t group);
Range shard_range(const Segment&, std::int64_t rank, std::int64_t group);

// Returns `n`, rounded up to a multiple of `to`.
std::int64_t padded(std::int64_t n, std::int64_t to);

}  // namespace trireme
