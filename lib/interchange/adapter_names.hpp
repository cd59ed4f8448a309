#pragma once
// Names of the tensors in peft's adapter files, and the locations of their elements in Trireme's
// parameters.
#include <string>
#include <string_view>
#include <vector>

#include "lib/interchange/hf_tensors.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// A tensor of one module in an adapter file: lora_A [R, in], lora_B [out, R] or
// lora_magnitude_vector [out] of a linear map, where R is the adapter's rank, or a tensor of a
// module that is trained as a whole. The tensor corresponds to rows [begin, begin + rows) of a
// Trireme parameter. The tensors of an embedding are transposed: lora_embedding_A [R, V]
// corresponds to rows of `b`, and lora_embedding_B [C, R] to rows of `a`.
struct AdapterTensor {
  std::string name;  // for example "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string module;  // for example "model.layers.0.self_attn.q_proj"
  // Trireme's name, for example "blocks.0.qkv.q"; empty for a tensor of an also-trained parameter.
  std::string product;
  ParamId param;
  std::int64_t begin, rows;
  std::int64_t columns = 0;  // 0 if the tensor is a vector
  // The tensor of the weight whose order of rows this tensor has. Empty for lora_A and embeddings
  // with adapters, whose rows have the order of the parameter.
  HfTensor weight = {};
  bool transposed = false;  // true if the tensor is [columns, rows]

  // Returns the number of elements in a row.
  std::int64_t width() const { return columns == 0 ? 1 : columns; }
  std::vector<std::int64_t> shape() const;

  // Returns the row of the file's tensor that contains this row of the parameter's part.
  std::int64_t row_in_tensor(std::int64_t row) const { return weight.row_in_tensor(row); }
};

// Returns the module of a tensor of transformers: "model.norm" for "model.norm.weight". A parameter
// that is neither a weight nor a bias counts as a module.
std::string module_of(std::string_view tensor);
// Returns peft's name of a tensor or module of transformers.
std::string peft_name(std::string_view name);

// Key in the metadata of the adapter file: the hash of the base model's weights.
inline constexpr const char* base_hash_key = "trireme_base";

// What to do with a product that shares its module with others, such as gate and up in
// gate_up_proj. peft cannot store an adapter of such a product.
enum class SharedModules : std::uint8_t { refuse, skip };

// A product whose adapter peft's format cannot store, and the module that computes this product and
// others.
struct SharedProduct {
  std::string product, module;
};

// Returns the shared products among the adapted products of a model. Throws Error if no family of
// transformers fits the model.
std::vector<SharedProduct> shared_products(const ModelSpec&);

// Returns the products in all blocks, and of all experts, that have the name of this one:
// "blocks.*.qkv.q" for "blocks.0.qkv.q".
std::string pattern_of(const std::string& product);

// Returns all adapter tensors of a model, in the order of its adapters: for each adapter the tensor
// of `a`, then that of `b`, then with DoRA lora_magnitude_vector. Throws Error if no family of
// transformers fits the model, or if a product shares its module and `shared` is `refuse`.
std::vector<AdapterTensor> adapter_tensors(const ModelSpec&,
                                           SharedModules shared = SharedModules::refuse);

// Returns true if peft's format can store the tensor of a parameter that is trained as a whole.
bool is_stored_whole(const HfTensor&, const ParamSpec&);

// Returns the tensors of the parameters in adapter.also_train. A tied embedding has two tensors:
// its own, and that of the head. Throws Error, naming the module, if only some of its parameters
// are trained, or if peft's format cannot store it.
std::vector<AdapterTensor> also_trained_tensors(const ModelSpec&);

}  // namespace trireme
