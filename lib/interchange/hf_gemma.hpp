#pragma once
// What config.json of Gemma 2 and of the text models of Gemma 3 has beyond Llama's.
#include <string>
#include <string_view>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

bool is_gemma(std::string_view model_type);

// c has its head_dim, or 0 for that which follows from its width, its windows and rotary settings.
void read_gemma(const ConfigFields&, std::string_view model_type, ModelConfig& c);
// Settings of layers without a window, as a file has them; of those with one, into c.
const Json* full_rope_of_gemma3(const ConfigFields&, ModelConfig& c);

// Of a model that architecture_of() says is one.
void add_gemma(Json&, const ModelConfig&, const std::string& architecture);
// The number that Gemma's attention is scaled by the root of; 0: none gives this scale.
std::int64_t query_scalar_of(const ModelConfig&);

}  // namespace trireme
