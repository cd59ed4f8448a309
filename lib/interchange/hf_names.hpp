#pragma once
// The correspondence between tensors of Hugging Face models and Trireme's parameters, used for
// import and export.
//
// Trireme's matrices are [out, in]. GPT-2's projections (Conv1D) are [in, out] and are transposed.
// `qkv` contains the rows of all query heads, then all key heads, then all value heads. `ffn_in` of
// a SwiGLU contains the rows of gate, then up. Rotary positions rotate the same halves of a head in
// both, so no rows are permuted.
//
// Each expert has tensors of its own. Transformers 5 can also write one tensor with all experts of
// a layer, which is read too. Phi-3 is a Llama model with packed projections. It is read, and
// exported as Llama. Norm weights of Gemma are stored minus one.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

// Whether a tensor has the parameter's layout or is its transpose.
enum class Order : std::uint8_t { same, transposed };
// Whether the experts of a layer are in separate tensors or in one.
enum class ExpertTensors : std::uint8_t { apart, together };
// Whether queries, keys and values, and also gate and up, are in separate tensors or packed into
// one.
enum class ProductTensors : std::uint8_t { apart, packed };

// A tensor of a Hugging Face model, and the part of a Trireme parameter to which it corresponds.
struct HfTensor {
  std::string name;
  Shape shape;
  // Name of Trireme's parameter.
  std::string param;
  // The tensor corresponds to the parameter's elements [begin, begin + shape.count()), row-major.
  std::int64_t begin = 0;
  // If transposed, the tensor is the transpose of the whole parameter.
  Order order = Order::same;
  // Trireme's elements minus the tensor's elements.
  double plus = 0;
  // If `experts` is not 0, the tensor contains `experts` experts one after the other, and this is
  // the part of expert number `expert`.
  std::int64_t expert = 0;
  std::int64_t experts = 0;
  bool operator==(const HfTensor&) const = default;
};

// Returns all tensors of a model in the order of the forward pass. Those of one parameter are in
// ascending order of `begin`. Each element of each parameter is in exactly one tensor. Throws Error
// if no architecture has the model's parameters.
std::vector<HfTensor> hf_tensors(const ModelSpec&, ExpertTensors = ExpertTensors::apart,
                                 ProductTensors = ProductTensors::apart);
// Returns true if a tensor of this name contains all experts of a layer.
bool is_of_all_experts(std::string_view name);

// Returns the prefix of all tensor names except the head's. A file that was saved from the model
// without its head lacks this prefix.
std::string_view hf_prefix(const ModelConfig&);
// Name of the head's tensor.
inline constexpr std::string_view hf_head = "lm_head.weight";

// Returns true for masks and rotary frequencies that old files contain in addition to the weights.
// They follow from the settings and are skipped.
bool is_known_buffer(std::string_view name);

}  // namespace trireme
