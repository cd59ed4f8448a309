#include "lib/deck/own_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lib/base/text_parts.hpp"

namespace trireme {

namespace {

// A part of a name, and its counterpart. An empty counterpart is left out.
struct OwnName {
  std::string_view theirs, ours;
};
constexpr OwnName own_names[] = {
    {"model", ""},
    {"transformer", ""},
    {"layers", "blocks"},
    {"h", "blocks"},
    {"self_attn", ""},
    {"attn", ""},
    {"mlp", ""},
    {"block_sparse_moe", ""},
    {"q_proj", "qkv.q"},
    {"k_proj", "qkv.k"},
    {"v_proj", "qkv.v"},
    {"qkv_proj", "qkv*"},
    {"c_attn", "qkv*"},
    {"o_proj", "projection"},
    {"gate_proj", "ffn_in.gate"},
    {"up_proj", "ffn_in.up"},
    {"gate_up_proj", "ffn_in*"},
    {"c_fc", "ffn_in*"},
    {"down_proj", "ffn_out"},
    {"w1", "ffn_in.gate"},
    {"w3", "ffn_in.up"},
    {"w2", "ffn_out"},
    {"input_layernorm", "attention_norm"},
    {"embed_tokens", "embedding"},
    {"wte", "embedding"},
    {"wpe", "positions"},
    {"norm", "final_norm"},
    {"ln_f", "final_norm"},
    {"ln_1", "attention_norm"},
    {"ln_2", "ffn_norm"},
    {"lm_head", "head"},
};

}  // namespace

std::string own_pattern(std::string_view pattern) {
  const auto counterpart = [](std::string_view part) {
    const auto* const found = std::ranges::find(own_names, part, &OwnName::theirs);
    return found == std::end(own_names) ? nullptr : found;
  };
  const auto theirs = split(pattern, '.');
  std::vector<std::string_view> parts;
  bool any = false;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const auto* const own = counterpart(theirs[i]);
    // self_attn.* and mlp.* have no single counterpart, and without their first part they would
    // match more.
    const bool widens = own && own->ours.empty() && i + 1 < theirs.size() &&
                        theirs[i + 1] != "experts" && !counterpart(theirs[i + 1]);
    any = any || (own && !widens);
    if (!own || widens) parts.push_back(theirs[i]);
    if (own && !own->ours.empty()) parts.push_back(own->ours);
  }
  if (!any || parts.empty()) return std::string(pattern);
  const auto first = parts.front();
  const bool whole = first == "blocks" || first == "embedding" || first == "head" ||
                     first == "positions" || first == "final_norm" || first.starts_with('*') ||
                     first.starts_with('?');
  return fmt::format("{}{}", whole ? "" : "*.", fmt::join(parts, "."));
}

void use_own_names(Deck& deck) {
  for (auto* patterns : {&deck.adapter.patterns, &deck.adapter.also_train, &deck.optimizer.no_decay,
                         &deck.optimizer.adamw_patterns, &deck.precision.fp8_except})
    for (auto& pattern : *patterns) pattern = own_pattern(pattern);
  for (auto& pattern : deck.adapter.patterns)
    if (pattern == "all-linear") pattern = "*";
  for (auto& rule : deck.adapter.ranks) rule.pattern = own_pattern(rule.pattern);
  for (auto& rule : deck.freeze) rule.pattern = own_pattern(rule.pattern);
}

}  // namespace trireme
