#pragma once
// Files config.json of small models, and what is read of one.
#include "lib/interchange/hf_config.hpp"
#include "tests/interchange/model_files.hpp"

namespace trireme::test {

inline Json llama_config() {
  return Json::parse(R"({"model_type": "llama", "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 257,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-05})");
}

inline ModelConfig with(Json json, const char* changes) {
  json.update(Json::parse(changes));
  return model_of_config(json, "config.json");
}

inline Json mixture_config(const char* changes) {
  auto json = llama_config();
  json.update(Json::parse(R"({"num_experts": 6, "num_experts_per_tok": 2})"));
  json.update(Json::parse(changes));
  return json;
}

inline Json qwen2_moe_config() {
  return mixture_config(R"({"model_type": "qwen2_moe", "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 14, "norm_topk_prob": true})");
}

inline Json qwen3_moe_config() {
  return mixture_config(R"({"model_type": "qwen3_moe", "moe_intermediate_size": 12})");
}

}  // namespace trireme::test
