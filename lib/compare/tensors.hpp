#pragma once
// Compares two states of a model tensor by tensor. The states come from two checkpoints, which are
// read in chunks, or from values in memory.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/compare/tally.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/spec.hpp"
#include "lib/shard/digests.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Name of a tensor: the name of an array (gradients_array, weights_array or an optimizer array) and
// a parameter.
struct TensorName {
  std::string array;
  ParamId param;
  auto operator<=>(const TensorName&) const = default;
};

// The result of comparing one tensor.
struct TensorDifference {
  TensorName name;
  Tally tally;
  // "A" or "B" if only that state has the tensor, because the parameter is frozen in the other
  // state or the optimizers differ. Empty if both states have it.
  std::string_view only_in;

  bool differs() const { return !only_in.empty() || !tally.equal(); }
};
// Results for all tensors: gradients, then weights, then the optimizer's arrays by name. Within an
// array, tensors are in model order.
using TensorDifferences = std::vector<TensorDifference>;

// Returns the number of tensors that differ.
std::size_t count_differing(const TensorDifferences&);
// Returns the first tensor that differs, or null if all are equal.
const TensorDifference* first_differing(const TensorDifferences&);

// Throws Error, naming the first differences, if a checkpoint's model differs from `spec`. Also
// throws Error if the checkpoints store weights in different types.
void require_comparable(const ModelSpec&, const CheckpointReader& a, const CheckpointReader& b);
// Compares all weights and optimizer arrays. Reads each checkpoint once, in chunks.
TensorDifferences compare_states(const ModelSpec&, CheckpointReader& a, CheckpointReader& b);
// Returns true if the two states are equal. Stops at the first difference.
bool equal_states(const ModelSpec&, CheckpointReader& a, CheckpointReader& b);

// Elements of a tensor in their storage type. Gradients with run.exactness = "invariant" are 64-bit
// fixed-point numbers.
using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>>;
// All tensors of a model on a single rank, which holds whole tensors.
using TensorValues = std::map<TensorName, Values>;

// Returns the summed gradients of the trained parameters. Call the function after a step and before
// the next step.
TensorValues gradients_of(Trainer&);
// Returns the weights and the optimizer's arrays.
TensorValues state_of(Trainer&);

// Compares the tensors that both states have. Throws Error if their types differ.
TensorDifferences compare_values(const TensorValues& a, const TensorValues& b);

// Returns the pipeline stage of each unit, indexed by UnitId. For a unit that two stages hold,
// returns the first stage. `stage_blocks` is the number of blocks on each stage.
std::vector<int> stages_of_units(const ModelSpec&, std::span<const std::int64_t> stage_blocks);

}  // namespace trireme
