#pragma once
// The correspondence between tensors of Hugging Face models and Trireme's parameters, used for
// import and export.
//
// Trireme's matrices are [out, in]. GPT-2's projections (Conv1D) are [in, out] and are transposed.
// `qkv` contains the rows of all query heads, then all key heads, then all value heads. `ffn_in` of
// a SwiGLU contains the rows of gate, then up. Rotary embeddings rotate the same halves of a head
// in both programs, so rows are not permuted.
//
// Each expert has separate tensors. Files of transformers 5 with one tensor for all experts of a
// layer can also be read. Phi-3 is a Llama model with packed projections. It can be read, and is
// exported as Llama. Gemma's files contain norm weights minus one.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

// Whether a tensor has the parameter's layout or the transposed layout.
enum class Order : std::uint8_t { same, transposed };
// Whether the experts of a layer are in separate tensors or in a single tensor.
enum class ExpertTensors : std::uint8_t { apart, together };
// Whether the query, key and value projections have separate tensors or are packed into a single
// tensor. The same applies to the gate and up projections.
enum class ProductTensors : std::uint8_t { apart, packed };

// A tensor of a Hugging Face model, and the corresponding part of a Trireme parameter.
struct HfTensor {
  std::string name;
  Shape shape;
  // Name of Trireme's parameter.
  std::string param;
  // Index of the parameter's first element that the tensor contains. The tensor corresponds to
  // elements [begin, begin + shape.count()), in row-major order.
  std::int64_t begin = 0;
  // Layout of the tensor. If `transposed`, the tensor is the transpose of the whole parameter.
  Order order = Order::same;
  // Number that is added to the tensor's elements to get Trireme's elements.
  double plus = 0;
  // Number of experts in the tensor, one after the other, and the expert that this part belongs to.
  // `experts` is 0 if the tensor does not contain several experts.
  std::int64_t expert = 0;
  std::int64_t experts = 0;
  bool operator==(const HfTensor&) const = default;
};

// Returns all tensors of a model in the order of the forward pass. The tensors of one parameter are
// in ascending order of `begin`. Each element of each parameter is in exactly one tensor. Throws
// Error if no architecture of transformers has the model's parameters.
std::vector<HfTensor> hf_tensors(const ModelSpec&, ExpertTensors = ExpertTensors::apart,
                                 ProductTensors = ProductTensors::apart);
// Returns true if a tensor of this name contains all experts of a layer.
bool is_of_all_experts(std::string_view name);

// Returns the prefix of all tensor names except the head's. In files that were saved from the model
// without its head, tensor names lack this prefix.
std::string_view hf_prefix(const ModelConfig&);
// Name of the head's tensor.
inline constexpr std::string_view hf_head = "lm_head.weight";

// Returns true for masks and rotary frequencies, which old files contain in addition to the
// weights. They can be computed from the settings and are skipped.
bool is_known_buffer(std::string_view name);

}  // namespace trireme
