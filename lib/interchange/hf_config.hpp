#pragma once
// config.json of Hugging Face's transformers, as its versions 4 and 5 write it, to and from the
// [model] section. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/interchange/hf_names.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Ids that begin and end a text; none: the model has no such id.
struct TextIds {
  std::optional<std::int32_t> begin;
  std::vector<std::int32_t> ends;
};

// Resolved, with vocab. GPT-2, Llama, Mistral, Phi-3, OLMo 2, Qwen2, Qwen3, Mixtral, OLMoE and the
// mixtures of Qwen2 and Qwen3; dropout is left out. `context`, where given, stands for the model's
// own, which may be too long for what [model] can say of it. Error naming `where` and the setting
// that [model] cannot represent.
ModelConfig model_of_config(const Json&, std::string_view where,
                            std::optional<std::int64_t> context = {});

// How the folder's tensors are cut.
ProductTensors products_of_config(const Json&);

// "LlamaForCausalLM". Error naming the deck's key that no architecture has.
std::string architecture_of(const ModelConfig&);
// For a completed model with vocab that has an architecture. As version 4 writes it, which both
// read.
Json config_of_model(const ModelConfig&, const TextIds&, ElementType);
Json generation_config(const TextIds&);

}  // namespace trireme
