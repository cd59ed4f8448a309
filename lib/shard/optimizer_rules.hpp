#pragma once
// The rules of an optimizer: one for parameters that are updated element by element, and possibly
// one for matrices. Also the arrays of state that they keep for a segment.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/update_rule.hpp"
#include "lib/matrix/matrix_rule.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/matrices.hpp"

namespace trireme {

// Rule and settings of matrices that are updated as a whole.
struct MatrixOptimizer {
  MatrixRule rule;
  MatrixScale scale = MatrixScale::jordan;
  HeadMatrices heads = HeadMatrices::together;
};

struct OptimizerRules {
  UpdateRule elements;
  // Factor on the learning rate, and weight decay, of parameters that are updated element by
  // element. Without `decay`, all parameters have the decay of the update (UpdateFactors).
  double lr_factor = 1;
  std::optional<double> decay{};
  std::optional<MatrixOptimizer> matrices{};
  // Decay of the averages of weights (average_array). 0 keeps none.
  double average_decay = 0;
};

// An array with one number for each of the segment's elements in a range. A rank holds the numbers
// of the elements in its shard. The range begins or ends with the segment.
struct ElementArray {
  std::string name;
  Range elements;

  bool has(const Slot& slot) const { return contains(elements, slot.begin); }
  // Returns the largest number of elements that any of the ranks holds, whose shards have `shard`
  // elements each. All ranks allocate this much, so that their memory use is equal.
  std::int64_t most_held(std::int64_t shard) const { return std::min(shard, elements.count()); }
};

// A square array of a segment's matrices. The squares of all matrices are stored one after another,
// and divided into one shard per rank like the segment.
struct SquareSlots {
  SquareArray array;
  std::vector<Slot> slots;    // of the segment's parameters with matrices
  std::int64_t elements = 0;  // including padding

  // Returns the slot of a parameter, or null if it has no matrices.
  const Slot* slot_of(ParamId) const;
};

// The arrays of a segment. If weights are averaged, average_array is the last element array.
struct StateArrays {
  std::vector<ElementArray> elementwise;
  std::vector<SquareSlots> squares;
};

// Returns the arrays of a segment that `ranks` ranks share.
StateArrays state_arrays(const OptimizerRules&, const ModelSpec&, const Segment&,
                         std::int64_t ranks);
// Returns the names of all arrays of all segments. If weights are averaged, average_array is the
// last of them.
std::vector<std::string> all_arrays(const OptimizerRules&);

}  // namespace trireme
