#include "lib/model/config.hpp"

#include <array>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

struct Preset {
  std::string_view name;
  std::int64_t layers, width, heads, kv_heads, ffn_width, vocab, context;
};

// GPT-2: Radford et al. 2019; the vocabulary of 50257 is padded to a multiple of 64. ffn_width
// follows from width.
constexpr std::array gpt2 = {
    Preset{"gpt2-124M", 12, 768, 12, 0, 0, 50304, 1024},
    Preset{"gpt2-350M", 24, 1024, 16, 0, 0, 50304, 1024},
    Preset{"gpt2-774M", 36, 1280, 20, 0, 0, 50304, 1024},
    Preset{"gpt2-1558M", 48, 1600, 25, 0, 0, 50304, 1024},
};

// 7B and 70B: Touvron et al. 2023, "Llama 2"; 1B: the shape of Zhang et al. 2024, "TinyLlama".
constexpr std::array llama = {
    Preset{"llama-1B", 22, 2048, 32, 4, 5632, 32000, 2048},
    Preset{"llama-7B", 32, 4096, 32, 32, 11008, 32000, 4096},
    Preset{"llama-70B", 80, 8192, 64, 8, 28672, 32000, 4096},
};

ModelConfig with_shape(const Preset& s) {
  ModelConfig c;
  c.preset = s.name;
  c.layers = s.layers;
  c.width = s.width;
  c.heads = s.heads;
  c.kv_heads = s.kv_heads;
  c.ffn_width = s.ffn_width;
  c.vocab = s.vocab;
  c.context = s.context;
  return c;
}

}  // namespace

ModelConfig resolved(ModelConfig c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.ffn_width == 0) {
    if (c.activation == ActivationKind::swiglu) {
      const std::int64_t least = (8 * c.width + 2) / 3;
      c.ffn_width = (least + 63) / 64 * 64;
    } else {
      c.ffn_width = 4 * c.width;
    }
  }
  return c;
}

std::vector<std::string_view> model_preset_names() {
  std::vector<std::string_view> names;
  for (const auto& s : gpt2) names.push_back(s.name);
  for (const auto& s : llama) names.push_back(s.name);
  return names;
}

ModelConfig model_preset(std::string_view name) {
  for (const auto& s : gpt2) {
    if (s.name == name) return with_shape(s);
  }
  for (const auto& s : llama) {
    if (s.name != name) continue;
    ModelConfig c = with_shape(s);
    c.norm = NormKind::rms;
    c.bias = false;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
    c.tied = false;
    return c;
  }
  fail("there is no model preset '{}'", name);
}

}  // namespace trireme
