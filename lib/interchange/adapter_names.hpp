#pragma once
// Names of the tensors in peft's adapter files, and the locations of their elements in Trireme's
// parameters.
#include <string>
#include <vector>

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
};

// Returns all adapter tensors of a model, in the order of its adapters: for each adapter lora_A,
// then lora_B. Throws Error if no architecture of transformers has the model's parameters.
std::vector<AdapterTensor> adapter_tensors(const ModelSpec&);

}  // namespace trireme
