#pragma once
// Settings in config.json that Gemma 2 and the text models of Gemma 3 have in addition to those of
// Llama.
#include <string>
#include <string_view>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Returns true for the model types "gemma2" and "gemma3_text".
bool is_gemma(std::string_view model_type);

// Reads Gemma's settings into `c`. The width, windows, rotary settings and head_dim of `c` must
// already be set. A head_dim of 0 means width / heads.
void read_gemma(const ConfigFields&, std::string_view model_type, ModelConfig& c);
// Returns the object with the rotary settings of layers without a window, or nullptr if the file
// has none. Stores the rotary base of layers with a window in `c`.
const Json* full_rope_of_gemma3(const ConfigFields&, ModelConfig& c);

// Adds Gemma's settings to a config.json. `architecture` must be the result of architecture_of().
void add_gemma(Json&, const ModelConfig&, const std::string& architecture);
// Returns the number n for which 1 / sqrt(n) is the scale of attention scores, for Gemma's
// query_pre_attn_scalar. Returns 0 if there is no such integer.
std::int64_t query_scalar_of(const ModelConfig&);

}  // namespace trireme
