#pragma once
// Settings that Gemma 2 and the text models of Gemma 3 have in config.json in addition to Llama's.
#include <string>
#include <string_view>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Returns true for the model types "gemma2" and "gemma3_text".
bool is_gemma(std::string_view model_type);

// Reads Gemma's settings into `c`. `c` must already have its width, windows, rotary settings and
// head_dim. A head_dim of 0 stands for width / heads.
void read_gemma(const ConfigFields&, std::string_view model_type, ModelConfig& c);
// Returns the rotary settings of layers without a window, as an object of the file, or nullptr if
// there are none. Writes the rotary base of layers with a window to `c`.
const Json* full_rope_of_gemma3(const ConfigFields&, ModelConfig& c);

// Adds Gemma's settings to a config.json. `architecture` must be the result of architecture_of().
void add_gemma(Json&, const ModelConfig&, const std::string& architecture);
// Returns the number n for which attention scores are scaled by 1 / sqrt(n), as Gemma's
// query_pre_attn_scalar requires. Returns 0 if no whole number gives the model's scale.
std::int64_t query_scalar_of(const ModelConfig&);

}  // namespace trireme
