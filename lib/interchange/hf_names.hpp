#pragma once
// The tensors of Hugging Face's models and where their elements lie in our parameters: one table
// for both directions.
//
// Ours are [out, in]. GPT-2's projections (Conv1D) are [in, out], so they are transposed. qkv packs
// the rows of all query heads, then key heads, then value heads; ffn_in of a SwiGLU the rows of
// gate, then up. The halves of a head that rotary positions turn are theirs: nothing is permuted.
// Experts have tensors of their own; transformers 5 also writes one of all experts of a layer where
// it is told not to keep the old format, and that is read. So is Phi-3, a Llama whose products lie
// in one tensor as ours do: it is written as what it computes. Norms of Gemma's are stored less
// one.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

enum class Order : std::uint8_t { same, transposed };
enum class ExpertTensors : std::uint8_t { apart, together };
// Queries, keys and values, and gate and up, each in a tensor of its own or in one.
enum class ProductTensors : std::uint8_t { apart, packed };

struct HfTensor {
  std::string name;
  Shape shape;
  std::string param;          // of ours
  std::int64_t begin = 0;     // elements [begin, begin + shape.count()) of it, row-major
  Order order = Order::same;  // transposed: the whole parameter
  double plus = 0;            // what ours has more than theirs
  std::int64_t expert = 0;    // whose part of theirs this is,
  std::int64_t experts = 0;   // ... which has these experts' one behind the other; 0: it is whole
  bool operator==(const HfTensor&) const = default;
};

// All tensors of a model, in order of the forward pass; those of a parameter in order of begin.
// Every element of every parameter is in one of them. Error when no architecture has the model's
// parameters.
std::vector<HfTensor> hf_tensors(const ModelSpec&, ExpertTensors = ExpertTensors::apart,
                                 ProductTensors = ProductTensors::apart);
// Does a tensor of this name hold all experts of a layer?
bool is_of_all_experts(std::string_view name);

// Names of a model without its head begin with this, unless the file was saved from that alone.
std::string_view hf_prefix(const ModelConfig&);
// The head's tensor.
inline constexpr std::string_view hf_head = "lm_head.weight";

// Masks and frequencies that old files hold beside the weights: a function of the settings.
bool is_known_buffer(std::string_view name);

}  // namespace trireme
