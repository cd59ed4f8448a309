#pragma once
// Two states of a model, tensor by tensor: from two checkpoints, streamed, or from values in
// memory.
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

// An array of a parameter: gradients_array, weights_array, or the optimizer's.
struct TensorName {
  std::string array;
  ParamId param;
  auto operator<=>(const TensorName&) const = default;
};

struct TensorDifference {
  TensorName name;
  Tally tally;
  // "A" or "B" when the other has no such array (frozen there, or of another optimizer).
  std::string_view only_in;

  bool differs() const { return !only_in.empty() || !tally.equal(); }
};
// In order: gradients, weights, then the optimizer's arrays by name, each in the order of the
// model.
using TensorDifferences = std::vector<TensorDifference>;

std::size_t count_differing(const TensorDifferences&);
// The first that differs, by that order; null: none.
const TensorDifference* first_differing(const TensorDifferences&);

// Error naming the first differences when the checkpoints are of other models than `spec`, or keep
// their weights in different types.
void require_comparable(const ModelSpec&, const CheckpointReader& a, const CheckpointReader& b);
// All weights and arrays. Reads both once, a chunk at a time.
TensorDifferences compare_states(const ModelSpec&, CheckpointReader& a, CheckpointReader& b);
// Stops at the first difference.
bool equal_states(const ModelSpec&, CheckpointReader& a, CheckpointReader& b);

// Elements as they are kept: counts of quanta where gradients are counted.
using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>>;
// Of one rank that holds all.
using TensorValues = std::map<TensorName, Values>;

// What a step's gradients came to, of what is trained; after step(), before the next.
TensorValues gradients_of(Trainer&);
// Weights and the optimizer's arrays.
TensorValues state_of(Trainer&);

// Of the tensors that both have.
TensorDifferences compare_values(const TensorValues& a, const TensorValues& b);

// By UnitId: the stage that holds the unit, of the first where two do, with so many blocks a stage.
std::vector<int> stages_of_units(const ModelSpec&, std::span<const std::int64_t> stage_blocks);

}  // namespace trireme
