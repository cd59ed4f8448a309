#pragma once
// Converts between config.json of Hugging Face's transformers, as versions 4 and 5 write it, and
// the deck section [model].
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

// Ids that begin and end a text. An id is absent if the model has none.
struct TextIds {
  std::optional<std::int32_t> begin;
  std::vector<std::int32_t> ends;
  std::optional<std::int32_t> pad{};
};

// Returns the completed ModelConfig for a config.json, including the vocabulary size. Supported
// models are GPT-2, Llama, Mistral, Phi-3, OLMo 2, Gemma 2, Gemma 3 (text), Qwen2, Qwen3, Mixtral,
// OLMoE and the mixture-of-experts models of Qwen2 and Qwen3. Dropout is ignored. `context`
// replaces the file's context length, which may be too large for the deck. Throws Error, naming
// `where` and the setting, if [model] cannot represent a setting.
ModelConfig model_of_config(const Json&, std::string_view where,
                            std::optional<std::int64_t> context = {});

// Returns how a folder with this config.json stores the query, key and value projections, and the
// gate and up projections: each in a tensor of its own, or packed into one tensor.
ProductTensors products_of_config(const Json&);

// Returns the architecture of transformers that computes this model, for example
// "LlamaForCausalLM". Throws Error, naming a deck key, if no architecture does.
std::string architecture_of(const ModelConfig&);
// Returns a config.json in the form of transformers version 4, which version 5 also reads. The
// model must be completed, have a vocabulary size and correspond to an architecture.
Json config_of_model(const ModelConfig&, const TextIds&, ElementType);
// Returns a generation_config.json with these ids.
Json generation_config(const TextIds&);

}  // namespace trireme
