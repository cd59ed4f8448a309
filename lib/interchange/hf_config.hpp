#pragma once
// Converts between a whole config.json of Hugging Face's transformers, as versions 4 and 5 write
// it, and the deck section [model].
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Ids that begin and end a text. An id is absent if the model has none.
struct TextIds {
  std::optional<std::int32_t> begin;
  std::vector<std::int32_t> ends;
  std::optional<std::int32_t> pad{};
};

// Returns the completed ModelConfig for a config.json, including the vocabulary size. The supported
// types of models are those in lib/interchange/families. Dropout is ignored. `context` is the
// number of tokens per sample that the user asked for. Throws Error, naming `where` and the
// member, if [model] cannot represent a member.
ModelConfig model_of_config(const Json&, std::string_view where,
                            std::optional<std::int64_t> context = {});

// Returns a config.json in the form of transformers version 4, which version 5 also reads. The
// model must be completed and have a vocabulary size. Throws Error if no family fits.
Json config_of_model(const ModelConfig&, const TextIds&, ElementType);

// Returns members of an imported config.json that ModelConfig does not represent, as the text of a
// JSON object. It contains initializer_range, router_aux_loss_coef and pad_token_id, which
// add_kept() restores, the architecture, and "dtype", the type of the weights, if all tensors have
// one type.
std::string kept_config(const Json& config, const std::set<ElementType>& types);
// Restores initializer_range, router_aux_loss_coef and pad_token_id in an exported config.json.
// Does not replace a pad_token_id that is already set. An empty text adds nothing.
void add_kept(Json& config, const std::string& kept);
// Returns the type of the imported weights if an export can write it (f32 or bf16), otherwise
// nullopt.
std::optional<ElementType> kept_type(const std::string& kept);
// Returns the architecture in the text, or an empty string.
std::string kept_architecture(const std::string& kept);
// Returns a generation_config.json with these ids.
Json generation_config(const TextIds&);

}  // namespace trireme
