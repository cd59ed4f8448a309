// config.json to [model] and back.
#include "lib/interchange/hf_config.hpp"

#include "lib/interchange/family.hpp"
#include "tests/interchange/config_files.hpp"

namespace trireme {

using namespace test;

TEST(HfConfig, WhatIsWrittenIsRead) {
  for (const auto& [name, config] : small_models()) {
    const auto back = model_of_config(config_of_model(config, {1, {2}}, ElementType::bf16), name);
    EXPECT_EQ(canonical(back), canonical(config)) << name;
    EXPECT_EQ(back.max_context, config.max_context) << name;
  }
}

TEST(HfConfig, ArchitecturesFollowFromTheSettings) {
  const std::pair<const char*, const char*> architectures[] = {
      {"gemma2", "Gemma2ForCausalLM"},      {"gemma3", "Gemma3ForCausalLM"},
      {"smollm3", "SmolLM3ForCausalLM"},    {"olmo3", "Olmo3ForCausalLM"},
      {"granite", "GraniteForCausalLM"},    {"glm4", "Glm4ForCausalLM"},
      {"gpt_oss", "GptOssForCausalLM"},     {"qwen2_moe", "Qwen2MoeForCausalLM"},
      {"qwen3_moe", "Qwen3MoeForCausalLM"}, {"olmoe", "OlmoeForCausalLM"},
      {"mixtral", "MixtralForCausalLM"},    {"olmo2", "Olmo2ForCausalLM"},
      {"qwen2", "Qwen2ForCausalLM"},        {"qwen3", "Qwen3ForCausalLM"},
      {"gpt2", "GPT2LMHeadModel"},          {"llama", "LlamaForCausalLM"},
      {"mistral", "MistralForCausalLM"}};
  for (const auto& [name, config] : small_models()) {
    const auto* const found = std::ranges::find_if(
        architectures, [&](const auto& a) { return name.starts_with(a.first); });
    EXPECT_EQ(family_of(config).architecture, found->second) << name;
  }
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
  const auto yarn = with(llama_config(), R"({"rope_scaling": {"type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32, "beta_slow": 2, "truncate": false}})");
  EXPECT_EQ(yarn.rope_scaling, RopeScaling::yarn);
  EXPECT_EQ(yarn.rope_factor, 4);
  EXPECT_EQ(yarn.rope_original_context, 32);
  EXPECT_EQ(yarn.rope_beta_fast, 32);
  EXPECT_EQ(yarn.rope_beta_slow, 2);
  EXPECT_FALSE(yarn.rope_truncate);
  EXPECT_EQ(yarn.rope_attention_factor, 0);
  // (0.1 ln 40 + 1) / (0.05 ln 40 + 1), as DeepSeek's files give it.
  EXPECT_NEAR(with(llama_config(), R"({"rope_scaling": {"type": "yarn", "factor": 40,
      "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 0.5}})")
                  .rope_attention_factor,
              1.1557219901, 1e-9);
  // Where a file has both, transformers takes rope_scaling, in version 5, too.
  const auto both = with(llama_config(), R"({"rope_theta": 7,
    "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"},
    "rope_scaling": {"rope_type": "linear", "factor": 4.0}})");
  EXPECT_EQ(both.rope_scaling, RopeScaling::linear);
  EXPECT_EQ(both.rope_factor, 4);
  EXPECT_EQ(both.rope_theta, 7);
  EXPECT_EQ(with(llama_config(), R"({"rope_scaling": {}, "rope_parameters": {"rope_theta": 5e5}})")
                .rope_theta,
            5e5);
}

TEST(HfConfig, MixturesAreReadUnderTheNamesOfBothVersions) {
  const auto mixtral = with(mixture_config(R"({"model_type": "mixtral"})"), "{}");
  EXPECT_EQ(mixtral.experts, 6);
  EXPECT_EQ(mixtral.experts_per_token, 2);
  EXPECT_EQ(mixtral.expert_width, 20);
  EXPECT_TRUE(mixtral.norm_topk);
  auto newer = qwen3_moe_config();
  newer.erase("num_experts");
  newer["num_local_experts"] = 6;
  EXPECT_EQ(with(newer, "{}"), with(qwen3_moe_config(), "{}"));
  EXPECT_EQ(with(newer, R"({"num_experts": 6})"), with(newer, "{}"));

  const auto olmoe = with(mixture_config(R"({"model_type": "olmoe", "norm_topk_prob": true})"),
                          R"({"clip_qkv": null})");
  EXPECT_EQ(olmoe.qk_norm_over, QkNormOver::width);
  EXPECT_EQ(olmoe.expert_width, 20);
  EXPECT_TRUE(olmoe.norm_topk);
  const auto qwen2 = with(qwen2_moe_config(), "{}");
  EXPECT_EQ(qwen2.expert_width, 12);
  EXPECT_EQ(qwen2.ffn_width, 20);
  EXPECT_EQ(qwen2.shared_expert_width, 14);
  EXPECT_TRUE(qwen2.shared_expert_gate);
  EXPECT_TRUE(qwen2.norm_topk);
  EXPECT_FALSE(with(qwen2_moe_config(), R"({"norm_topk_prob": false})").norm_topk);
  EXPECT_FALSE(with(qwen2_moe_config(), R"({"qkv_bias": false})").qkv_bias);
  EXPECT_EQ(with(qwen2_moe_config(), R"({"router_aux_loss_coef": 0.5, "output_router_logits": true,
                                         "router_jitter_noise": 0.1})"),
            qwen2);
}

// As transformers has them: those listed, and all but every decoder_sparse_step-th.
TEST(HfConfig, LayersOfAMixtureMayHaveOneMlp) {
  const auto dense = [](const char* changes) {
    auto json = qwen3_moe_config();
    json["num_hidden_layers"] = 6;
    return with(json, changes).dense_layers;
  };
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(dense("{}"), Layers{});
  EXPECT_EQ(dense(R"({"mlp_only_layers": [4, 1, 6, 4]})"), (Layers{1, 4}));
  EXPECT_EQ(dense(R"({"decoder_sparse_step": 3})"), (Layers{0, 1, 3, 4}));
  EXPECT_EQ(dense(R"({"decoder_sparse_step": 2, "mlp_only_layers": [1]})"), (Layers{0, 1, 2, 4}));
  EXPECT_EQ(dense(R"({"decoder_sparse_step": 1, "mlp_only_layers": null})"), Layers{});
  // Nothing is built of a number without bound.
  EXPECT_EQ(dense(R"({"num_hidden_layers": 1000000000, "decoder_sparse_step": 2})").size(), 5000U);
}

// As version 5 reads them: the base of a window is not that of other layers.
TEST(HfConfig, Olmo3HasABaseForWindows) {
  const auto bases = [](const char* changes) {
    const auto c = with(llama_config(), changes);
    return std::pair(c.rope_theta, c.window_rope_theta);
  };
  EXPECT_EQ(bases(R"({"model_type": "olmo3", "rope_theta": 5e5})"), std::pair(5e5, 5e5));
  EXPECT_EQ(bases(R"({"model_type": "olmo3", "rope_theta": 1e6, "rope_parameters":
      {"full_attention": {"rope_theta": 1e6, "rope_type": "default"}}})"),
            std::pair(1e6, 5e5));
  EXPECT_EQ(bases(R"({"model_type": "olmo3", "rope_parameters":
      {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 7e3}}})"),
            std::pair(1e6, 7e3));
  EXPECT_EQ(bases(R"({"model_type": "olmo3", "rope_theta": 7, "layer_types":
      ["full_attention", "full_attention"]})"),
            std::pair(7.0, 0.0));
}

// Names of configurations that transformers writes itself, and of models that are much used.
TEST(HfConfig, WhatHasNoEffectIsLeftOut) {
  const char* notes = R"({"_name_or_path": "x", "architectures": ["X"], "bos_token_id": 1,
    "eos_token_id": [1, 2], "initializer_range": 0.1, "use_cache": true, "torch_dtype": "bfloat16",
    "dtype": "bfloat16", "transformers_version": "5.0", "attention_dropout": 0.1,
    "pretraining_tp": 2, "unheard_of": null, "temperature": 0.5, "id2label": {"0": "a"},
    "rope_interleaved": false, "use_mrope": false, "pruned_heads": {}, "per_layer_config": {},
    "is_llama_config": true, "transformers.js_config": {"dtype": "q4"}, "mlp_bias": false,
    "use_sliding_window": false, "sliding_window": 8, "max_window_layers": 1})";
  EXPECT_EQ(with(llama_config(), notes), with(llama_config(), "{}"));
  const auto gpt2 = config_of_model(small_gpt2(), {}, ElementType::f32);
  const char* of_gpt2 = R"({"summary_type": "cls_index", "n_ctx": 5, "task_specific_params": {},
    "reorder_and_upcast_attn": true, "resid_pdrop": 0.3, "gradient_checkpointing": false})";
  EXPECT_EQ(with(gpt2, of_gpt2), with(gpt2, "{}"));
}

TEST(HfConfig, AShorterContextLeavesTheModelsPositions) {
  const auto llama = model_of_config(llama_config(), "config.json", 32);
  EXPECT_EQ(llama.max_context, 64);
  EXPECT_EQ(config_of_model(llama, {}, ElementType::f32).at("max_position_embeddings"), 64);
  EXPECT_EQ(model_of_config(llama_config(), "config.json", 64), llama);
  const auto gpt2 =
      model_of_config(config_of_model(small_gpt2(), {}, ElementType::f32), "config.json", 5);
  const auto spec = make_spec(gpt2);
  EXPECT_EQ(spec.params[spec.positions.index()].shape, (Shape{17, 24}));
  EXPECT_EQ(config_of_model(gpt2, {}, ElementType::f32).at("n_positions"), 17);
}

TEST(HfConfig, KnowsWhatAFileMayLeaveOut) {
  EXPECT_FALSE(with(llama_config(), "{}").tied);
  EXPECT_EQ(with(llama_config(), R"({"num_key_value_heads": null})").kv_heads, 4);
  EXPECT_EQ(with(llama_config(), "{}").head_dim, 6);
  EXPECT_TRUE(with(llama_config(), R"({"model_type": "qwen2"})").qkv_bias);
  EXPECT_TRUE(with(llama_config(), R"({"model_type": "qwen3"})").qk_norm);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "qwen3"})").head_dim, 128);
  EXPECT_EQ(with(llama_config(), R"({"rms_norm_eps": null})").norm_eps, 1e-6);
  EXPECT_EQ(with(llama_config(), R"({"max_position_embeddings": null})").max_context, 2048);
  const char* phi = R"({"model_type": "phi3", "rms_norm_eps": null, "num_key_value_heads": null,
    "max_position_embeddings": null, "original_max_position_embeddings": 4096})";
  const auto phi3 = with(llama_config(), phi);
  EXPECT_EQ(phi3.kv_heads, 4);
  EXPECT_EQ(phi3.max_context, 4096);
  EXPECT_EQ(phi3.norm_eps, 1e-5);
  EXPECT_EQ(phi3.window, 0);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "phi3", "sliding_window": 5})").window, 5);
  // As Microsoft has it, with code that is older than the class.
  EXPECT_EQ(with(llama_config(), R"({"model_type": "phi3", "sliding_window": 5, "auto_map":
    {"AutoConfig": "configuration_phi3.Phi3Config",
     "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}})")
                .window,
            5);
  const auto olmo2 = with(llama_config(), R"({"model_type": "olmo2", "rms_norm_eps": null,
    "max_position_embeddings": null})");
  EXPECT_EQ(olmo2.max_context, 2048);
  EXPECT_EQ(olmo2.norm_eps, 1e-5);
  EXPECT_EQ(olmo2.norm_place, NormPlace::after);
  EXPECT_EQ(olmo2.qk_norm_over, QkNormOver::width);
  EXPECT_TRUE(olmo2.qk_norm);
  const char* second = R"({"model_type": "gemma2", "num_key_value_heads": 2, "hidden_act": "x",
    "num_hidden_layers": 4, "rms_norm_eps": null, "cache_implementation": "hybrid"})";
  const auto gemma2 = with(llama_config(), second);
  EXPECT_EQ(gemma2.head_dim, 256);
  EXPECT_EQ(gemma2.attention_scale, 0);  // 1/sqrt(256)
  EXPECT_EQ(gemma2.attention_softcap, 50);
  EXPECT_EQ(gemma2.logit_softcap, 30);
  EXPECT_EQ(gemma2.window, 4096);
  EXPECT_EQ(gemma2.window_layers, (std::vector<std::int64_t>{0, 2}));
  EXPECT_TRUE(gemma2.tied && gemma2.scale_embedding);
  // As the one of 9B has it.
  EXPECT_EQ(with(llama_config(), R"({"model_type": "gemma2", "sliding_window": 5,
    "sliding_window_size": 5})")
                .window,
            5);
  EXPECT_EQ(with(llama_config(), R"({"model_type": "gemma3_text", "sliding_window": 5,
    "sliding_window_pattern": 1, "rope_scaling": {}})")
                .window,
            0);
  const auto gemma3 = with(llama_config(), R"({"model_type": "gemma3_text", "head_dim": 16,
    "num_hidden_layers": 7, "rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 8},
    "final_logit_softcapping": null})");
  EXPECT_EQ(gemma3.attention_scale, 1 / 16.0);
  EXPECT_EQ(gemma3.logit_softcap, 0);
  EXPECT_EQ(gemma3.window_layers, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(gemma3.rope_theta, 5e5);
  EXPECT_EQ(gemma3.rope_factor, 8);
  EXPECT_EQ(gemma3.window_rope_theta, 10000);
  EXPECT_TRUE(gemma3.qk_norm);
  const auto by_type = with(llama_config(), R"({"model_type": "gemma3_text",
    "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 5,
    "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 9e5},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 700}}})");
  EXPECT_EQ(by_type.window_layers, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(by_type.rope_theta, 9e5);
  EXPECT_EQ(by_type.rope_factor, 4);
  EXPECT_EQ(by_type.window_rope_theta, 700);
  auto mixture = qwen2_moe_config();
  for (const auto* key : {"num_key_value_heads", "num_experts_per_tok", "norm_topk_prob",
                          "max_position_embeddings", "rms_norm_eps"})
    mixture.erase(key);
  mixture["num_attention_heads"] = 16;
  mixture["hidden_size"] = 64;
  const auto qwen2 = with(mixture, "{}");
  EXPECT_EQ(qwen2.kv_heads, 16);
  EXPECT_EQ(qwen2.experts_per_token, 4);
  EXPECT_FALSE(qwen2.norm_topk);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_EQ(qwen2.max_context, 32768);
  EXPECT_EQ(qwen2.norm_eps, 1e-6);
  const auto qwen3 = with(mixture, R"({"model_type": "qwen3_moe", "num_experts": 9,
                                       "shared_expert_intermediate_size": null})");
  EXPECT_EQ(qwen3.kv_heads, 4);
  EXPECT_EQ(qwen3.head_dim, 4);
  EXPECT_EQ(qwen3.experts_per_token, 8);
  const auto mixtral = with(mixture, R"({"model_type": "mixtral", "moe_intermediate_size": null,
                                         "shared_expert_intermediate_size": null})");
  EXPECT_EQ(mixtral.kv_heads, 8);
  EXPECT_EQ(mixtral.experts_per_token, 2);
  EXPECT_EQ(mixtral.max_context, 131072);
  EXPECT_EQ(mixtral.norm_eps, 1e-5);
  EXPECT_EQ(mixtral.rope_theta, 1e6);
  const auto olmoe = with(mixture, R"({"model_type": "olmoe", "moe_intermediate_size": null,
                                       "shared_expert_intermediate_size": null,
                                       "num_experts": 8})");
  EXPECT_EQ(olmoe.kv_heads, 16);
  EXPECT_EQ(olmoe.experts_per_token, 8);
  EXPECT_EQ(olmoe.max_context, 4096);
  EXPECT_EQ(olmoe.norm_eps, 1e-5);
  EXPECT_EQ(olmoe.rope_theta, 10000);
  EXPECT_FALSE(olmoe.norm_topk);
  auto mistral = llama_config();
  mistral.erase("num_key_value_heads");
  mistral.update(Json::parse(R"({"model_type": "mistral", "num_attention_heads": 12})"));
  EXPECT_EQ(message_of<Error>([&] { model_of_config(mistral, ""); }), "");
  EXPECT_EQ(model_of_config(mistral, "").kv_heads, 8);
  EXPECT_EQ(model_of_config(mistral, "").window, 4096);
  const auto gpt2 =
      model_of_config(Json::parse(R"({"model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3,
                      "vocab_size": 257, "n_positions": 17, "n_inner": null})"),
                      "config.json");
  EXPECT_EQ(gpt2, small_gpt2());
}

// config.json of gpt-oss-20b as OpenAI published it, and what its class takes where a member is
// missing.
TEST(HfConfig, OfGptOssIsThatOfThePreset) {
  auto json = Json::parse(R"({"architectures": ["GptOssForCausalLM"], "attention_bias": true,
    "attention_dropout": 0.0, "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64,
    "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096,
    "initializer_range": 0.02, "intermediate_size": 2880, "max_position_embeddings": 131072,
    "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4,
    "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
    "output_router_logits": false, "pad_token_id": 199999, "quantization_config":
    {"modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"], "quant_method": "mxfp4"},
    "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
    "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
    "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201088})");
  const auto preset = canonical(completed(model_preset("gpt-oss-20B")));
  EXPECT_EQ(canonical(with(json, "{}")), preset);
  for (const auto* key :
       {"attention_bias", "experts_per_token", "head_dim", "hidden_act", "max_position_embeddings",
        "num_experts_per_tok", "num_key_value_heads", "quantization_config", "rms_norm_eps",
        "rope_scaling", "rope_theta", "sliding_window", "swiglu_limit", "tie_word_embeddings"})
    json.erase(key);
  EXPECT_EQ(canonical(with(json, "{}")), preset);
  // Version 5.
  EXPECT_EQ(canonical(with(json, R"({"rope_parameters": {"rope_theta": 150000, "beta_fast": 32.0,
    "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
    "rope_type": "yarn", "truncate": false}, "swiglu_alpha": 1.702})")),
            preset);
  EXPECT_EQ(with(json, R"({"rope_scaling": {"rope_type": "default"}})").rope_scaling,
            RopeScaling::none);
  EXPECT_FALSE(with(json, R"({"attention_bias": false})").bias);
}

}  // namespace trireme
