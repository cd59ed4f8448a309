#pragma once
// Names of the tensors in peft's adapter files, and the locations of their elements in Trireme's
// parameters.
#include <string>
#include <vector>

#include "lib/interchange/hf_tensors.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// A tensor lora_A [R, in] or lora_B [out, R] of one linear map, where R is the adapter's rank. The
// tensor corresponds to rows [begin, begin + rows) of a Trireme parameter.
struct AdapterTensor {
  std::string name;  // for example "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string module;   // for example "model.layers.0.self_attn.q_proj"
  std::string product;  // Trireme's name, for example "blocks.0.qkv.q"
  ParamId param;
  std::int64_t begin, rows, columns;
  // For lora_B, the tensor of the adapted weight, whose order of rows lora_B shares.
  HfTensor weight = {};

  // Returns the row of the file's tensor that contains this row of the parameter's part.
  std::int64_t row_in_tensor(std::int64_t row) const { return weight.row_in_tensor(row); }
};

// What to do with a product that shares its module with others, such as gate and up in
// gate_up_proj. peft cannot store an adapter of such a product.
enum class SharedModules : std::uint8_t { refuse, skip };

// A product whose adapter peft's format cannot store, and the module that computes this product and
// others.
struct SharedProduct {
  std::string product, module;
};

// Returns those of the adapted products. Throws Error if no family of transformers fits the model.
std::vector<SharedProduct> shared_products(const ModelSpec&);

// Returns the products in all blocks, and of all experts, that have the name of this one:
// "blocks.*.qkv.q" for "blocks.0.qkv.q".
std::string pattern_of(const std::string& product);

// Returns all adapter tensors of a model, in the order of its adapters: for each adapter lora_A,
// then lora_B. Throws Error if no family of transformers fits the model, or if a product shares its
// module and `shared` is `refuse`.
std::vector<AdapterTensor> adapter_tensors(const ModelSpec&,
                                           SharedModules shared = SharedModules::refuse);

}  // namespace trireme
