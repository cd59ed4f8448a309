#pragma once
// The tensors of peft's adapters, and where their elements lie in our parameters.
#include <string>
#include <vector>

#include "lib/model/spec.hpp"

namespace trireme {

// lora_A [R, in] or lora_B [out, R] of one product: rows [begin, begin + rows) of a parameter.
struct AdapterTensor {
  std::string name;     // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string module;   // "model.layers.0.self_attn.q_proj"
  std::string product;  // ours: "blocks.0.qkv.q"
  ParamId param;
  std::int64_t begin, rows, columns;
};

// In order of the model's adapters. Error when no architecture has the model's parameters.
std::vector<AdapterTensor> adapter_tensors(const ModelSpec&);

}  // namespace trireme
