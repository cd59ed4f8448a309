#include "lib/deck/own_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/deck/deck.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;

TEST(OwnNames, OfModulesOfTransformers) {
  for (const auto& [theirs, ours] :
       {std::pair("q_proj", "*.qkv.q"),
        {"*.q_proj", "*.qkv.q"},
        {"model.layers.0.*", "blocks.0.*"},
        {"model.layers.1?.self_attn.o_proj", "blocks.1?.projection"},
        {"model.layers.*.mlp.experts.*.gate_proj", "blocks.*.experts.*.ffn_in.gate"},
        {"experts.3.w2", "*.experts.3.ffn_out"},
        {"gate_up_proj", "*.ffn_in*"},
        {"transformer.h.2.attn.c_attn", "blocks.2.qkv*"},
        {"model.embed_tokens.weight", "embedding.weight"},
        {"lm_head", "head"}})
    EXPECT_EQ(own_pattern(theirs), ours) << theirs;
  // Nothing is widened: a pattern without counterpart matches nothing, which is refused.
  EXPECT_EQ(own_pattern("model.layers.3.mlp.*"), "blocks.3.mlp.*");

  for (const char* own : {"*", "*.qkv.*", "blocks.0.projection", "*norm*",
                          "blocks.?.ffn_out.weight", "head.weight", "nothing", ""})
    EXPECT_EQ(own_pattern(own), own);
}

TEST(OwnNames, StandInDecks) {
  const auto deck = parse_deck(
      "[model]\npreset = 'smollm2-135M'\n[data]\npath = 'x'\n[train]\nsteps = 1\n[adapter]\nrank = "
      "2\n"
      "patterns = ['q_proj', 'model.layers.3.*', 'all-linear']\n[[freeze]]\npattern = "
      "'model.layers.0.*'\n",
      "d.toml");
  EXPECT_THAT(deck.adapter.patterns, ElementsAre("*.qkv.q", "blocks.3.*", "*"));
  EXPECT_EQ(deck.freeze.at(0).pattern, "blocks.0.*");
  const auto muon = parse_deck(
      "[model]\npreset = 'smollm2-135M'\n[data]\npath = 'x'\n[train]\nsteps = 1\n[optimizer]\nname "
      "= 'muon'\nadamw_patterns = ['model.embed_tokens.weight', 'model.layers.3.*']\n",
      "d.toml");
  EXPECT_THAT(muon.optimizer.adamw_patterns, ElementsAre("embedding.weight", "blocks.3.*"));
}

}  // namespace
}  // namespace trireme
