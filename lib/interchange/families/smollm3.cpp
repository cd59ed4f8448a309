// SmolLM 3: Llama with layers that have no positions.
#include <fmt/format.h>

#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

// no_rope_layers lists, contrary to its name, 1 for each layer with positions and 0 for each layer
// without.
static void nope_layers_config(ConfigArchive& a, ModelConfig& c) {
  constexpr const char* key = "no_rope_layers";
  if (!a.reads()) {
    auto rotates = Json::array();
    for (std::int64_t l = 0; l < c.layers; ++l) rotates.push_back(has_rotary(c, l) ? 1 : 0);
    a.note(key, rotates);
    return;
  }
  const auto& f = a.fields();
  const auto* const listed = f.find(key);
  if (listed) f.unused("no_rope_layer_interval");
  const auto each = listed ? 1 : f.integer("no_rope_layer_interval", 4);
  f.refuse_if(listed && (!listed->is_array() || std::ssize(*listed) < c.layers), key,
              fmt::format("it must be an array of {} numbers, one per layer", c.layers));
  for (std::int64_t l = 0; l < countable(c.layers); ++l) {
    const bool rotates = listed ? integer(listed->at(static_cast<std::size_t>(l)), key, 0, 1) == 1
                                : (l + 1) % each != 0;
    if (!rotates) c.nope_layers.push_back(l);
  }
}

static void smollm3_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 32768, .kv_heads = 4, .tied = true, .biases = true});
  silu_config(a);
  rope_config(a, c, {.theta = 2e6});
  nope_layers_config(a, c);
  window_config(a, c, {.switched = true, .by_layer = true, .layers = c.nope_layers});
}

static const RegisteredFamily smollm3({.model_type = "smollm3",
                                       .architecture = "SmolLM3ForCausalLM",
                                       .config = smollm3_config,
                                       .tensors = {joined({trunk_rows, qkv_rows, gate_up_rows,
                                                           norm_before_rows})}});

}  // namespace trireme
