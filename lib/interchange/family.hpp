#pragma once
// A model family of Hugging Face's transformers as one value: the correspondence between its
// config.json and ModelConfig, and between its tensors and Trireme's parameters. Import and export
// use the same value. Each file in lib/interchange/families declares one family.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/interchange/config_archive.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// The rows of a parameter that a tensor contains. `qkv` contains the rows of all query heads, then
// all key heads, then all value heads. `ffn_in` of a gated MLP contains the rows of gate, then up.
enum class TensorRows : std::uint8_t { all, queries, keys, values, gate, up };

// The order of a tensor's output channels, which are the rows of the parameter.
enum class TensorOrder : std::uint8_t {
  // The order of the parameter.
  same,
  // The two channels that rotate together are neighbors in each head. In the parameter, they are
  // head_dim / 2 channels apart. Channels that do not rotate follow.
  rotary_pairs,
  // Each channel of the gate is followed by the channel of `up` that it multiplies.
  gate_up_pairs,
};

// How a tensor stores a matrix.
enum class TensorStorage : std::uint8_t {
  rows,     // [out, in]
  columns,  // [in, out]
  // [out, in / 32, 16] bytes with two 4-bit numbers each, and another tensor [out, in / 32] with a
  // scale for each block of 32 numbers (lib/interchange/mxfp4.hpp).
  mxfp4,
};

// One row of a family's table of tensors.
struct TensorRow {
  // Names of the parameter and the tensor. "#" stands for the number of the block and "@" for the
  // number of the expert. If only the parameter's name contains "@", the tensor contains the
  // parameters of all experts of a block, one after the other.
  std::string_view param, tensor;
  TensorRows rows = TensorRows::all;
  TensorOrder order = TensorOrder::same;
  TensorStorage storage = TensorStorage::rows;
  // Name of the tensor with the scales, for TensorStorage::mxfp4.
  std::string_view scales = {};
  // Number that is added to the tensor's elements to get the parameter's elements.
  double plus = 0;
};

// A row applies only if the model has the parameter.
using TensorTable = std::vector<TensorRow>;
TensorTable joined(std::initializer_list<std::span<const TensorRow>>);

struct Family {
  // The member model_type of config.json, and the class in transformers.
  std::string_view model_type, architecture;
  // Reads or writes the members of config.json that describe the model. When reading, the config
  // starts with its defaults, and completed() is applied to the result.
  void (*config)(ConfigArchive&, ModelConfig&);
  // Tables of tensors. Export writes the first. Import uses the one that fits the files best.
  std::vector<TensorTable> tensors;
  // Prefix of all tensor names except the head's. Files that were saved without the head lack it.
  std::string_view prefix = "model.";
  // A model that fits several families is exported as the one with the lowest rank, then as the
  // first in alphabetical order. Families without a rank are imported only.
  std::optional<int> rank = 10;
};

// Adds a family to families(). Declare one object of this type in the family's file.
struct RegisteredFamily {
  explicit RegisteredFamily(Family);
};

// Returns all families in the order in which export tries them.
const std::vector<Family>& families();

// Returns the family of a config.json. Throws Error if there is none.
const Family& family_of(const ConfigFields&);
// Returns the family that the model is exported as: the first one whose config.json describes the
// same model. The model must be completed. Throws Error, naming the nearest families and the deck
// keys that differ, if there is none.
const Family& family_of(const ModelConfig&);

// Reads a config.json. See model_of_config().
ModelConfig read_config(const Family&, const ConfigFields&, std::optional<std::int64_t> context);
// Returns the members of config.json that describe the model.
Json write_config(const Family&, ModelConfig);

}  // namespace trireme
