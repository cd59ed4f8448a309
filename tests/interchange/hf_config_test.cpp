// config.json to [model] and back; what cannot be represented is refused by name.
#include "lib/interchange/hf_config.hpp"

#include "lib/interchange/hf_names.hpp"
#include "tests/interchange/model_files.hpp"

namespace trireme {

using namespace test;

TEST(HfConfig, WhatIsWrittenIsRead) {
  for (const auto& [name, config] : small_models())
    EXPECT_EQ(model_of_config(config_of_model(config, {1, 2}, ElementType::bf16), name), config)
        << name;
}

TEST(HfConfig, ArchitecturesFollowFromTheSettings) {
  for (const auto& [name, config] : small_models())
    EXPECT_EQ(architecture_of(config), name.starts_with("gpt2")    ? "GPT2LMHeadModel"
                                       : name.starts_with("qwen2") ? "Qwen2ForCausalLM"
                                       : name.starts_with("qwen3") ? "Qwen3ForCausalLM"
                                                                   : "LlamaForCausalLM");
}

TEST(HfConfig, AModelThatNoArchitectureDescribesIsRefusedByItsSetting) {
  const auto refused = [](ModelConfig c, auto change, const char* says) {
    change(c);
    const auto text = message_of<Error>([&] { architecture_of(c); });
    EXPECT_NE(text.find(says), std::string::npos) << says << ": " << text;
  };
  const auto gpt2 = small_gpt2(), llama = small_llama();
  refused(
      gpt2, [](auto& c) { c.norm = NormKind::rms; }, "model.norm = \"rms\"");
  refused(
      gpt2, [](auto& c) { c.activation = ActivationKind::swiglu; }, "model.activation");
  refused(
      gpt2, [](auto& c) { c.bias = false; }, "model.bias = false");
  refused(
      gpt2, [](auto& c) { c.qk_norm = true; }, "model.qk_norm");
  refused(
      gpt2, [](auto& c) { c.kv_heads = 1; }, "model.kv_heads = 1 of 3");
  refused(
      gpt2, [](auto& c) { c.head_dim = 4; }, "model.head_dim = 4");
  refused(
      llama, [](auto& c) { c.norm = NormKind::layer; }, "model.norm = \"layer\"");
  refused(
      llama, [](auto& c) { c.activation = ActivationKind::gelu; }, "model.activation");
  refused(
      llama, [](auto& c) { c.qk_norm = c.bias = true; }, "model.bias = true");
  refused(
      llama, [](auto& c) { c.qk_norm = c.qkv_bias = true; }, "model.qkv_bias = true");
  refused(
      llama, [](auto& c) { c.heads = 10; }, "model.heads = 10");
}

static Json llama_config() {
  return Json::parse(R"({"model_type": "llama", "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 257,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-05})");
}

static ModelConfig with(Json json, const char* changes) {
  json.update(Json::parse(changes));
  return model_of_config(json, "config.json");
}

TEST(HfConfig, TakesBothWaysToWriteRotarySettings) {
  const char* v4 = R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}})";
  const char* v5 =
      R"({"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 4.0}})";
  EXPECT_EQ(with(llama_config(), v4), with(llama_config(), v5));
  EXPECT_EQ(with(llama_config(), v4).rope_theta, 5e5);
  EXPECT_EQ(with(llama_config(), v4).rope_scaling, RopeScaling::linear);
  EXPECT_EQ(with(llama_config(), R"({"rope_theta": 7, "rope_scaling": null})").rope_theta, 7);
  EXPECT_EQ(with(llama_config(), "{}").rope_theta, 10000);
  const auto c = with(llama_config(), R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}})");
  EXPECT_EQ(c.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(c.rope_original_context, 32);
}

TEST(HfConfig, KnowsWhatAFileMayLeaveOut) {
  EXPECT_FALSE(with(llama_config(), "{}").tied);
  EXPECT_EQ(with(llama_config(), R"({"num_key_value_heads": null})").kv_heads, 4);
  EXPECT_EQ(with(llama_config(), "{}").head_dim, 6);
  EXPECT_TRUE(with(llama_config(), R"({"model_type": "qwen2"})").qkv_bias);
  EXPECT_TRUE(with(llama_config(), R"({"model_type": "qwen3"})").qk_norm);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "qwen3"})").head_dim, 128);
  const auto gpt2 =
      model_of_config(Json::parse(R"({"model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3,
                      "vocab_size": 257, "n_positions": 17, "n_inner": null})"),
                      "config.json");
  EXPECT_EQ(gpt2, small_gpt2());
}

TEST(HfConfig, ASlidingWindowIsRefusedWhereItMatters) {
  const char* window = R"({"model_type": "mistral", "sliding_window": 32})";
  const auto says = message_of<Error>([&] { with(llama_config(), window); });
  EXPECT_NE(says.find("'sliding_window' = 32"), std::string::npos) << says;
  EXPECT_NE(says.find("--context 32"), std::string::npos) << says;
  auto json = llama_config();
  json.update(Json::parse(window));
  EXPECT_EQ(model_of_config(json, "config.json", 32).context, 32);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "mistral", "sliding_window": null})").context,
            64);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "mistral", "sliding_window": 64})").context, 64);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "qwen2", "sliding_window": 8,
                                     "use_sliding_window": false})")
                .context,
            64);
}

TEST(HfConfig, WhatCannotBeRepresentedIsRefusedByName) {
  const std::pair<const char*, const char*> llama[] = {
      {R"({"model_type": "gemma"})", "\"gemma\""},
      {R"({"model_type": null})", "'model_type'"},
      {R"({"hidden_act": "gelu"})", "'hidden_act' = \"gelu\""},
      {R"({"attention_bias": true})", "'attention_bias' = true"},
      {R"({"mlp_bias": true})", "'mlp_bias' = true"},
      {R"({"model_type": "qwen3", "attention_bias": true})", "'attention_bias' = true"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}})", "\"yarn\""},
      {R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", "\"dynamic\""},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}})", "'low_freq_factor'"},
      {R"({"rope_scaling": {"rope_type": "linear"}})", "'factor'"},
      {R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})", "full_attention"},
      {R"({"partial_rotary_factor": 0.5})", "'partial_rotary_factor' = 0.5"},
      {R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})",
       "'partial_rotary_factor'"},
      {R"({"quantization_config": {"bits": 4}})", "'quantization_config'"},
      {R"({"auto_map": {"AutoModel": "x.Y"}})", "'auto_map'"},
      {R"({"is_encoder_decoder": true})", "'is_encoder_decoder'"},
      {R"({"hidden_size": null})", "it lacks 'hidden_size'"},
      {R"({"hidden_size": "24"})", "'hidden_size'"},
      {R"({"hidden_size": -24})", "'hidden_size'"},
      {R"({"hidden_size": 26})", "does not divide"},
      {R"({"rms_norm_eps": "x"})", "'rms_norm_eps'"},
      {R"({"tie_word_embeddings": 1})", "'tie_word_embeddings'"},
      {R"({"layer_types": ["full_attention", "linear_attention"]})", "linear_attention"},
      {R"({"model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 1,
           "sliding_window": 8})",
       "'sliding_window' = 8"},
      {R"({"model_type": "qwen3", "sliding_window": 8,
           "layer_types": ["full_attention", "sliding_attention"]})",
       "'sliding_window' = 8"},
  };
  const std::pair<const char*, const char*> gpt2[] = {
      {R"({"activation_function": "gelu"})", "'activation_function' = \"gelu\""},
      {R"({"scale_attn_weights": false})", "'scale_attn_weights'"},
      {R"({"scale_attn_by_inverse_layer_idx": true})", "'scale_attn_by_inverse_layer_idx'"},
      {R"({"add_cross_attention": true})", "'add_cross_attention'"},
      {R"({"n_embd": null})", "it lacks 'n_embd'"},
  };
  const auto check = [](const Json& json, const auto& cases) {
    for (const auto& [change, says] : cases) {
      const auto text = message_of<Error>([&] { with(json, change); });
      EXPECT_NE(text.find(says), std::string::npos) << change << ": " << text;
      EXPECT_TRUE(text.starts_with("config.json cannot be imported")) << text;
    }
  };
  check(llama_config(), llama);
  check(config_of_model(small_gpt2(), {}, ElementType::f32), gpt2);
  EXPECT_NE(message_of<Error>([] {
              model_of_config(config_of_model(small_gpt2(), {}, ElementType::f32), "c", 5);
            }).find("--context 5"),
            std::string::npos);
}

TEST(HfNames, KnownBuffersAreThoseOfBlocks) {
  EXPECT_TRUE(is_known_buffer("transformer.h.11.attn.bias"));
  EXPECT_TRUE(is_known_buffer("h.0.attn.masked_bias"));
  EXPECT_TRUE(is_known_buffer("model.layers.3.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_known_buffer("h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_known_buffer("model.layers.3.self_attn.q_proj.bias"));
}

}  // namespace trireme
