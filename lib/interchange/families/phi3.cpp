// Phi-3: Mistral with packed projections. Its models are exported as Llama or Mistral.
#include <algorithm>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

// Phi-3's own code is older than its class in transformers, and computes the same.
static bool is_code_of_phi3(const Json& names) {
  const auto known = [](const Json& name) {
    return name.is_string() &&
           (name == "configuration_phi3.Phi3Config" || name == "modeling_phi3.Phi3ForCausalLM");
  };
  return names.is_object() && std::ranges::all_of(names, known);
}

// Throws Error if the rotary positions are scaled. Phi-3's class reads "su" and "yarn" as
// "longrope", too.
static void refuse_scaling(const ConfigFields& f) {
  for (const auto* key : {"rope_scaling", "rope_parameters"}) {
    const auto* const given = f.find(key);
    if (!given || given->empty()) continue;
    const ConfigFields rope(*given, key);
    const auto type = rope.text("rope_type", rope.text("type", "default").c_str());
    require(
        type == "default",
        "'rope_type' = \"{}\" in a model of type \"phi3\" means \"longrope\", which scales each "
        "channel differently and is not supported. Only Phi-3 models without it can be imported",
        escaped(type));
  }
}

static void phi3_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 4096, .norm_eps = 1e-5});
  no_bias(a);
  silu_config(a);
  if (a.reads()) refuse_scaling(a.fields());
  rope_config(a, c);
  window_config(a, c, {});
  if (!a.reads()) return;
  const auto& f = a.fields();
  f.unused("original_max_position_embeddings");  // only longrope uses it
  const auto* const code = f.find("auto_map");
  f.refuse_if(code && !is_code_of_phi3(*code), "auto_map",
              "this model needs its own Python code, which may compute something different");
}

static constexpr TensorRow phi3_rows[] = {
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.qkv_proj.weight"},
};

static const RegisteredFamily phi3({.model_type = "phi3",
                                    .architecture = "Phi3ForCausalLM",
                                    .config = phi3_config,
                                    .tensors = {joined({trunk_rows, phi3_rows, packed_gate_up_rows,
                                                        norm_before_rows})},
                                    .rank = {}});

}  // namespace trireme
