// The models that decks describe.
#include "lib/deck/deck.hpp"
#include "lib/keys/quantity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/deck/resolve.hpp"
#include "lib/model/spec.hpp"
#include "lib/train/work.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {

TEST(Deck, PresetIsAStartThatKeysChange) {
  const Deck d =
      parsed("[model]\nlayers = 3\npreset = 'llama-70B'\n[data]\npath = 'x'\n[train]\nsteps = 1\n");
  EXPECT_EQ(d.model.layers, 3);
  EXPECT_EQ(d.model.width, 8192);
  EXPECT_EQ(d.model.kv_heads, 8);
  EXPECT_EQ(d.model.ffn_width, 28672);
  EXPECT_EQ(d.model.norm, NormKind::rms);
  EXPECT_EQ(d.model.positions, Positions::rotary);
  EXPECT_EQ(overridden({"model.preset=gpt2-1558M"}).model.ffn_width, 6400);
}

// What their makers published: counts of weights, and of config.json what no count depends on.
TEST(Deck, PresetsAreTheModelsOfTheirNames) {
  const struct {
    const char* name;
    std::int64_t count, context;
    double theta, eps, factor;
  } published[] = {{"llama-3.2-1B", 1235814400, 131072, 500000, 1e-5, 32},
                   {"llama-3-8B", 8030261248, 8192, 500000, 1e-5, 1},
                   {"mistral-7B-v0.3", 7248023552, 32768, 1e6, 1e-5, 1},
                   {"smollm2-135M", 134515008, 8192, 100000, 1e-5, 1},
                   {"smollm3-3B", 3075098624, 65536, 5e6, 1e-6, 1},
                   {"granite-3.3-2B", 2533525504, 131072, 1e7, 1e-5, 1},
                   {"glm4-9B", 9400279040, 32768, 10000, 1e-5, 1},
                   {"olmo2-1B", 1484916736, 4096, 500000, 1e-6, 1},
                   {"olmo3-7B", 7298011136, 65536, 500000, 1e-6, 8},
                   {"gemma2-2B", 2614341888, 8192, 10000, 1e-6, 1},
                   {"gemma3-1B", 999885952, 32768, 1e6, 1e-6, 1},
                   {"qwen2-0.5B", 494032768, 131072, 1e6, 1e-6, 1},
                   {"qwen3-0.6B", 596049920, 40960, 1e6, 1e-6, 1},
                   {"mixtral-8x7B", 46702792704, 32768, 1e6, 1e-5, 1},
                   {"olmoe-1B-7B", 6919161856, 4096, 10000, 1e-5, 1},
                   {"qwen1.5-moe-A2.7B", 14315784192, 8192, 1e6, 1e-6, 1},
                   {"qwen3-30B-A3B", 30532122624, 40960, 1e6, 1e-6, 1},
                   {"gpt-oss-20B", 20914757184, 131072, 150000, 1e-5, 32},
                   {"llama-7B", 6738415616, 4096, 10000, 1e-5, 1}};
  for (const auto& p : published) {
    const auto model = overridden({std::string("model.preset=") + p.name}).model;
    EXPECT_EQ(make_spec(model).parameter_count(), p.count) << p.name;
    EXPECT_EQ(model.max_context, p.context) << p.name;
    EXPECT_EQ(model.rope_theta, p.theta) << p.name;
    EXPECT_EQ(model.norm_eps, p.eps) << p.name;
    EXPECT_EQ(model.rope_factor, p.factor) << p.name;
  }
}

// What no count depends on, and what these models alone have.
TEST(Deck, PresetsHaveTheSettingsOfTheirNames) {
  using Layers = std::vector<std::int64_t>;
  const auto preset = [](const char* name) {
    return overridden({std::string("model.preset=") + name}).model;
  };
  EXPECT_EQ(preset("smollm3-3B").nope_layers, (Layers{3, 7, 11, 15, 19, 23, 27, 31, 35}));
  const auto granite = preset("granite-3.3-2B");
  EXPECT_EQ(granite.embedding_scale, 12);
  EXPECT_EQ(granite.attention_scale, 1.0 / 64);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.logit_scale, 1.0 / 8);
  const auto glm4 = preset("glm4-9B");
  EXPECT_EQ(glm4.head_dim, 128);
  EXPECT_EQ(glm4.rotary_dim, 64);
  const auto olmo3 = preset("olmo3-7B");
  EXPECT_EQ(window_of(olmo3, 30), 4096);
  EXPECT_EQ(window_of(olmo3, 31), 0);
  EXPECT_EQ(std::ssize(olmo3.window_layers), 24);
  EXPECT_EQ(olmo3.window_rope_theta, 500000);
  EXPECT_EQ(olmo3.rope_original_context, 8192);
  const auto gpt_oss = preset("gpt-oss-20B");
  EXPECT_EQ(window_of(gpt_oss, 22), 128);
  EXPECT_EQ(window_of(gpt_oss, 23), 0);
  EXPECT_EQ(gpt_oss.rope_original_context, 4096);
  EXPECT_FALSE(gpt_oss.rope_truncate);
  EXPECT_TRUE(gpt_oss.norm_topk);
}

TEST(Deck, ModelsOfOneFunctionDoNotDiffer) {
  auto plain = parsed(least_deck).model;
  plain.positions = Positions::rotary;
  const auto expect_same = [](const ModelConfig& a, const ModelConfig& b) {
    EXPECT_EQ(model_differences(a, b), std::vector<std::string>{});
  };
  auto c = plain;
  c.rotary_dim = c.head_dim;
  expect_same(c, plain);
  c.positions = plain.positions = Positions::learned;
  c.rotary_dim = 2;
  c.nope_layers = {1};
  expect_same(c, plain);
  c = plain;
  plain.scale_embedding = c.scale_embedding = true;
  c.embedding_scale = 2;
  expect_same(c, plain);

  plain.positions = Positions::rotary;
  plain.window = 8;
  plain.nope_layers = {1, 3};
  c = plain;
  c.nope_layers = {3, 1};
  c.window_rope_theta = c.rope_theta;
  expect_same(c, plain);
  c.rope_scaling = plain.rope_scaling = RopeScaling::linear;
  c.rope_factor = plain.rope_factor = 2;
  EXPECT_EQ(model_differences(c, plain).size(), 1U);
}

// As Radford et al. 2019 have it: branches are less the more of them there are. Of norms and biases
// nothing decays.
TEST(Deck, WeightsBeginAsThoseOfGpt2) {
  auto model = parsed(least_deck).model;
  model.vocab = 10;
  const double branch = 0.02 / std::sqrt(2.0 * 12);
  for (const auto& p : make_spec(model).params) {
    const bool matrix = p.shape.dims() == 2, norm = p.name.ends_with("norm.weight"),
               last = p.name.ends_with("projection.weight") || p.name.ends_with("ffn_out.weight");
    EXPECT_DOUBLE_EQ(p.init_std, !matrix ? 0 : last ? branch : 0.02) << p.name;
    EXPECT_EQ(p.init_mean, norm ? 1 : 0) << p.name;
    EXPECT_EQ(p.decay, matrix) << p.name;
  }
}

TEST(Deck, HeadsMayBeWiderThanTheModel) {
  EXPECT_EQ(parsed(least_deck).model.head_dim, 64);
  const Deck d = overridden({"model.preset=qwen3-0.6B"});
  EXPECT_EQ(d.model.head_dim, 128);
  const auto spec = make_spec(d.model);
  const auto& block = spec.blocks[0];
  EXPECT_EQ(spec.params[block.qkv.index()].shape, (Shape{(16 + 2 * 8) * 128, 1024}));
  EXPECT_EQ(spec.params[block.projection.index()].shape, (Shape{1024, 16 * 128}));
  const auto& norm = spec.params[block.k_norm.index()];
  EXPECT_EQ(norm.name, "blocks.0.k_norm.weight");
  EXPECT_EQ(norm.shape, Shape{128});
  EXPECT_FALSE(norm.decay);
  EXPECT_EQ(norm.init_mean, 1);
  EXPECT_EQ(overridden({"model.preset=qwen3-0.6B", "model.head_dim=auto"}).model.head_dim, 64);
  // 28 layers of 16 heads of 128, 4096 tokens. Norms, two of the width and two of a head a layer
  // and the final one, are in no product.
  const double attention = 6.0 * 28 * 16 * 128 * 4096;
  constexpr std::int64_t norms = 28 * (2 * 1024 + 2 * 128) + 1024;
  const auto& m = d.model;
  EXPECT_EQ(flops_of_token(make_spec(m), 4096), 6.0 * (596049920 - norms) + attention);
  // A window of half the context leaves three quarters of the pairs, in half of the layers.
  auto some = m;
  some.window = 4096 / 2;
  for (std::int64_t l = 0; l < m.layers; l += 2) some.window_layers.push_back(l);
  EXPECT_NEAR(flops_of_token(make_spec(some), 4096), 6.0 * (596049920 - norms) + attention * 7 / 8,
              1e-9 * attention);
}

TEST(Deck, AModelHoldsNoSettingOfARun) {
  const auto of = [](const std::vector<std::string>& settings) {
    std::vector<std::string> all{"model.preset=llama-1B", "model.max_context=2048",
                                 "model.context=128"};
    all.insert(all.end(), settings.begin(), settings.end());
    return overridden(all);
  };
  const auto plain = of({});
  for (const std::vector<std::string>& settings :
       std::vector<std::vector<std::string>>{{"model.context=64"},
                                             {"model.dropout=0.1"},
                                             {"model.recompute=block"},
                                             {"model.recompute=block", "model.offload=inputs"},
                                             {"model.chunk_tokens=32"},
                                             {"model.init_from=/base"},
                                             {"adapter.rank=4", "model.init_from=/base"}}) {
    const auto other = of(settings);
    EXPECT_FALSE(other == plain) << settings[0];
    EXPECT_TRUE(other.model == plain.model) << settings[0];
  }
  EXPECT_FALSE(of({"model.max_context=1024"}).model == plain.model);
}

TEST(Deck, PositionsAreAtLeastThoseOfASample) {
  const std::string deck = "[model]\nmax_context = 512\ncontext = 512\n" + std::string(least_deck);
  const std::string words = "model.max_context = 512 is less than model.context = ";
  EXPECT_EQ(refusal(deck), "");
  EXPECT_EQ(refusal(deck, {"model.context=513"}).find("override 'model.context=513': " + words),
            0U);
  EXPECT_EQ(refusal(deck, {"model.max_context=511"}).find("override 'model.max_context=511': "),
            0U);
  // The context is the preset's, or the default.
  EXPECT_NE(
      refusal_of_overrides({"model.preset=llama-1B", "model.max_context=512"}).find(words + "2048"),
      std::string::npos);
  EXPECT_EQ(refusal("[model]\nmax_context = 512\n" + std::string(least_deck))
                .find("d.toml:2:15: " + words + "1024"),
            0U);
  for (const char* word : {"auto", "0"})
    EXPECT_EQ(overridden({"model.context=4096", std::string("model.max_context=") + word})
                  .model.max_context,
              4096);
  EXPECT_EQ(overridden({"model.preset=llama-1B", "model.context=4096"}).model.max_context, 4096);
  // A continued run's positions grow with its samples, which its deck does not state as a rule.
  const std::vector<std::string> longer{"model.context=1024"};
  EXPECT_EQ(with_overrides(parsed(deck), longer).model.max_context, 1024);
  // Checkpoints of earlier versions.
  for (const char* most : {"256", "0"}) {
    const auto stored = "[model]\ncontext = 512\nmax_context = " + std::string(most) + "\n" +
                        std::string(least_deck);
    EXPECT_EQ(parse_dumped_deck(stored, "d.toml").model.max_context, 512);
  }
}

TEST(Deck, BiasOfQkvAlone) {
  const auto biases = [](const Deck& d) {
    std::vector<std::string> names;
    auto m = d.model;
    m.vocab = 10;
    for (const auto& p : make_spec(m).params)
      if (p.name.starts_with("blocks.0.") && p.name.ends_with(".bias")) names.push_back(p.name);
    return names;
  };
  EXPECT_EQ(biases(overridden({"model.preset=qwen2-0.5B"})),
            std::vector<std::string>{"blocks.0.qkv.bias"});
  EXPECT_EQ(biases(overridden({"model.qkv_bias=true"})), biases(parsed(least_deck)));
}

}  // namespace trireme
