// config.json to [model] and back; what cannot be represented is refused by name.
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_gemma.hpp"

#include "tests/interchange/config_files.hpp"

namespace trireme {

using namespace test;

TEST(HfConfig, WhatIsWrittenIsRead) {
  for (const auto& [name, config] : small_models())
    EXPECT_EQ(model_of_config(config_of_model(config, {1, {2}}, ElementType::bf16), name), config)
        << name;
}

TEST(HfConfig, ArchitecturesFollowFromTheSettings) {
  const std::pair<const char*, const char*> architectures[] = {
      {"gemma2", "Gemma2ForCausalLM"},      {"gemma3", "Gemma3ForCausalLM"},
      {"qwen2_moe", "Qwen2MoeForCausalLM"}, {"qwen3_moe", "Qwen3MoeForCausalLM"},
      {"olmoe", "OlmoeForCausalLM"},        {"mixtral", "MixtralForCausalLM"},
      {"olmo2", "Olmo2ForCausalLM"},        {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},        {"gpt2", "GPT2LMHeadModel"},
      {"llama", "LlamaForCausalLM"},        {"mistral", "MistralForCausalLM"}};
  for (const auto& [name, config] : small_models()) {
    const auto* const found = std::ranges::find_if(
        architectures, [&](const auto& a) { return name.starts_with(a.first); });
    EXPECT_EQ(architecture_of(config), found->second) << name;
  }
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
      gpt2, [](auto& c) { c.kv_heads = 1; }, "model.kv_heads = 1, and GPT2LMHeadModel");
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
  refused(
      llama, [](auto& c) { c.qk_norm = true, c.qk_norm_over = QkNormOver::width; },
      "model.qk_norm_over = \"width\"");
  refused(
      llama, [](auto& c) { c.attention_sinks = true; },
      "model.attention_sinks = true, and each that is exported needs false");
  refused(
      llama, [](auto& c) { c.norm_place = NormPlace::both; },
      "model.activation = \"swiglu\", and each with model.norm_place = \"both\"");
  refused(
      llama, [](auto& c) { c.activation = ActivationKind::geglu; }, "model.activation = \"geglu\"");
  refused(
      llama, [](auto& c) { c.scale_embedding = true; }, "model.scale_embedding = true");
  refused(
      llama, [](auto& c) { c.attention_scale = 0.3; }, "model.attention_scale = 0.3");
  refused(
      llama, [](auto& c) { c.attention_softcap = 30; }, "model.attention_softcap = 30");
  refused(
      gpt2, [](auto& c) { c.logit_softcap = 30; }, "model.logit_softcap = 30");
  refused(
      llama, [](auto& c) { c.window = 5, c.window_rope_theta = 30; },
      "model.window_rope_theta = 30");
  const auto gemma2 = small_gemma2(), gemma3 = small_gemma3();
  auto of_python = gemma2;
  of_python.attention_scale = 0.37796447300922725;  // 7**-0.5, not 1 / sqrt(7)
  EXPECT_EQ(query_scalar_of(of_python), 7);
  refused(
      gemma2, [](auto& c) { c.scale_embedding = false; }, "model.scale_embedding = false");
  refused(
      gemma2, [](auto& c) { c.qkv_bias = true; }, "model.qkv_bias = true");
  refused(
      gemma2, [](auto& c) { c.attention_scale = 0.3; }, "model.attention_scale = 0.3");
  refused(
      gemma2, [](auto& c) { c.width += 2; }, "a divisor of model.width");
  refused(
      gemma2, [](auto& c) { c.window_rope_theta = 30; }, "model.window_rope_theta = 30");
  refused(
      gemma3, [](auto& c) { c.attention_softcap = 30; }, "model.attention_softcap = 30");
  refused(
      gemma3, [](auto& c) { c.qk_norm_over = QkNormOver::width; }, "model.qk_norm_over");
  refused(
      gemma3,
      [](auto& c) {
        c.window_rope_theta = 0;
        c.rope_scaling = RopeScaling::linear;
      },
      "model.rope_scaling = \"linear\"");
  refused(
      gpt2, [](auto& c) { c.norm_place = NormPlace::after; },
      "model.norm_place = \"after\", and GPT2LMHeadModel");
  const auto olmo2 = small_olmo2();
  refused(
      olmo2, [](auto& c) { c.qk_norm = false; }, "model.qk_norm = false, and Olmo2ForCausalLM");
  refused(
      olmo2, [](auto& c) { c.qk_norm_over = QkNormOver::head; }, "model.qk_norm_over = \"head\"");
  refused(
      olmo2, [](auto& c) { c.window = 5; }, "model.window = 5");
  const auto mixtral = small_mixtral(), olmoe = small_olmoe(), qwen2 = small_qwen2_moe(),
             qwen3 = small_qwen3_moe();
  refused(
      olmoe, [](auto& c) { c.dense_layers = {1}; }, "model.dense_layers = [1]");
  refused(
      olmoe, [](auto& c) { c.head_dim = 8; }, "model.head_dim = 8");
  refused(
      olmoe, [](auto& c) { c.shared_expert_width = 8; }, "model.shared_expert_width = 8");
  refused(
      mixtral,
      [](auto& c) {
        c.positions = Positions::learned;
        c.norm = NormKind::layer;
      },
      "model.positions = \"learned\", and each with experts needs \"rotary\". Train with that, or "
      "export with --format hdf5");
  refused(
      mixtral, [](auto& c) { c.norm_place = NormPlace::after; },
      "model.norm_place = \"after\", and each with experts");
  refused(
      mixtral, [](auto& c) { c.norm_topk = false; }, "model.norm_topk = false");
  refused(
      mixtral,
      [](auto& c) {
        c.dense_layers = {0, 1};
      },
      "model.dense_layers = [0, 1]");
  refused(
      mixtral, [](auto& c) { c.qkv_bias = true; }, "model.qkv_bias = true");
  refused(
      mixtral, [](auto& c) { c.bias = true; }, "model.bias = true");
  refused(
      mixtral, [](auto& c) { c.router = RouterScores::sigmoid; }, "model.router = \"sigmoid\"");
  refused(
      qwen2, [](auto& c) { c.shared_expert_gate = false; }, "model.shared_expert_gate = false");
  refused(
      qwen2, [](auto& c) { c.head_dim = 8; }, "model.head_dim = 8");
  refused(
      qwen3, [](auto& c) { c.qkv_bias = true; }, "model.qkv_bias = true");
  refused(
      qwen3, [](auto& c) { c.shared_expert_width = 8; }, "model.shared_expert_width = 8");
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
  EXPECT_EQ(llama.context, 32);
  EXPECT_EQ(config_of_model(llama, {}, ElementType::f32).at("max_position_embeddings"), 64);
  EXPECT_EQ(model_of_config(llama_config(), "config.json", 64).max_context, 0);
  const auto gpt2 =
      model_of_config(config_of_model(small_gpt2(), {}, ElementType::f32), "config.json", 5);
  EXPECT_EQ(gpt2.context, 5);
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
  EXPECT_EQ(with(llama_config(), R"({"max_position_embeddings": null})").context, 2048);
  const char* phi = R"({"model_type": "phi3", "rms_norm_eps": null, "num_key_value_heads": null,
    "max_position_embeddings": null, "original_max_position_embeddings": 4096})";
  const auto phi3 = with(llama_config(), phi);
  EXPECT_EQ(phi3.kv_heads, 4);
  EXPECT_EQ(phi3.context, 4096);
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
  EXPECT_EQ(olmo2.context, 2048);
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
  EXPECT_EQ(qwen2.context, 32768);
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
  EXPECT_EQ(mixtral.context, 131072);
  EXPECT_EQ(mixtral.norm_eps, 1e-5);
  EXPECT_EQ(mixtral.rope_theta, 1e6);
  const auto olmoe = with(mixture, R"({"model_type": "olmoe", "moe_intermediate_size": null,
                                       "shared_expert_intermediate_size": null,
                                       "num_experts": 8})");
  EXPECT_EQ(olmoe.kv_heads, 16);
  EXPECT_EQ(olmoe.experts_per_token, 8);
  EXPECT_EQ(olmoe.context, 4096);
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

TEST(HfConfig, WhatCannotBeRepresentedIsRefusedByName) {
  const std::pair<const char*, const char*> llama[] = {
      {R"({"model_type": "gemma"})", "\"gemma\""},
      {R"({"model_type": null})", "'model_type'"},
      {R"({"hidden_act": "gelu"})", "'hidden_act' = \"gelu\""},
      {R"({"attention_bias": true})", "'attention_bias' = true"},
      {R"({"mlp_bias": true})", "'mlp_bias' = true"},
      {R"({"model_type": "qwen3", "attention_bias": true})", "'attention_bias' = true"},
      {R"({"rope_scaling": {"rope_type": "yarn"}})", "'rope_scaling.factor'"},
      {R"({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}})", "\"longrope\""},
      {R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", "\"dynamic\""},
      {R"({"model_type": "gemma2", "hidden_activation": "gelu"})",
       "'hidden_activation' = \"gelu\""},
      {R"({"model_type": "gemma2", "use_bidirectional_attention": true})",
       "'use_bidirectional_attention' = true"},
      {R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50})",
       "'attn_logit_softcapping' = 50"},
      {R"({"model_type": "gemma3_text", "rope_parameters": {"sliding_attention":
          {"rope_type": "linear", "factor": 2}}})",
       "'rope_parameters.sliding_attention.rope_type' = \"linear\""},
      {R"({"model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 8}})",
       "'rope_scaling.type' = \"linear\": Gemma 3's class reads 'rope_type' alone"},
      {R"({"model_type": "gemma3_text", "rope_parameters": {"rope_theta": 5}})",
       "'rope_parameters' = "},
      {R"({"model_type": "gemma2", "attn_logit_softcapping": 0.0})",
       "'attn_logit_softcapping' = 0.0"},
      {R"({"model_type": "gemma3_text", "final_logit_softcapping": 0})",
       "'final_logit_softcapping' = 0"},
      {R"({"model_type": "gemma2", "sliding_window": 5, "sliding_window_size": 6})",
       "'sliding_window_size' = 6"},
      {R"({"model_type": "phi3", "auto_map": {"AutoConfig": "other.Config"}})", "'auto_map'"},
      {R"({"model_type": "phi3", "rope_scaling": {"type": "su", "short_factor": [1, 1, 1]}})",
       "'rope_type' = \"su\" in a model of type \"phi3\" is \"longrope\""},
      {R"({"model_type": "phi3", "rope_scaling": {"type": "yarn", "factor": 2.0}})",
       "\"longrope\""},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}})",
       "'rope_scaling.low_freq_factor'"},
      {R"({"rope_scaling": {"rope_type": "linear"}})", "'rope_scaling.factor'"},
      {R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})", "full_attention"},
      {R"({"partial_rotary_factor": 0.5})", "'partial_rotary_factor' = 0.5"},
      {R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})",
       "'rope_parameters.partial_rotary_factor'"},
      {R"({"rope_scaling": {"rope_type": "default", "factor": 4.0}})", "'rope_scaling.factor' = 4"},
      {R"({"rope_parameters": {"rope_theta": 5, "mrope_section": [1, 1]}})",
       "'rope_parameters.mrope_section' = [1,1]"},
      {R"({"rope_scaling": "linear"})", "'rope_scaling' is not an object: \"linear\""},
      {R"({"rope_interleaved": true})", "'rope_interleaved' = true"},
      {R"({"logit_scale": 0.5, "qk\u001bnorm": true})",
       "'logit_scale' = 0.5, 'qk\\x1bnorm' = true: what this does to a model of type \"llama\""},
      {R"({"n_embd": 24})", "'n_embd' = 24"},
      {R"({"pruned_heads": {"1": [0]}})", "'pruned_heads'"},
      {R"({"num_hidden_layers": 2.0})", "'num_hidden_layers' is not an integer: 2.0"},
      {R"({"num_hidden_layers": 18446744073709551616})", "'num_hidden_layers' is not an integer"},
      {R"({"vocab_size": 9223372036854775808})",
       "'vocab_size' = 9223372036854775808 is out of range"},
      {R"({"quantization_config": {"bits": 4}})", "'quantization_config'"},
      {R"({"auto_map": {"AutoModel": "x.Y"}})", "'auto_map'"},
      {R"({"is_encoder_decoder": true})", "'is_encoder_decoder'"},
      {R"({"hidden_size": null})", "'hidden_size' is missing"},
      {R"({"hidden_size": "24"})", "'hidden_size'"},
      {R"({"hidden_size": -24})", "'hidden_size'"},
      {R"({"hidden_size": 26})", "does not divide"},
      {R"({"rms_norm_eps": "x"})", "'rms_norm_eps'"},
      {R"({"tie_word_embeddings": 1})", "'tie_word_embeddings'"},
  };
  const std::pair<const char*, const char*> qwen2_moe[] = {
      {R"({"num_experts_per_tok": 7})", "'num_experts_per_tok' = 7: a layer has 6 experts"},
      {R"({"num_experts_per_tok": 0})", "'num_experts_per_tok' = 0 is out of range"},
      {R"({"num_experts": 0})", "'num_experts' = 0 is out of range"},
      {R"({"num_experts": null})", "'num_experts' is missing"},
      {R"({"num_local_experts": 5})", "'num_local_experts' = 5 and 'num_experts' = 6 are two"},
      {R"({"norm_topk_prob": 1})", "'norm_topk_prob' is neither true nor false"},
      {R"({"moe_intermediate_size": null})", "'moe_intermediate_size' is missing"},
      {R"({"shared_expert_intermediate_size": null})",
       "'shared_expert_intermediate_size' is missing"},
      {R"({"decoder_sparse_step": 0})", "'decoder_sparse_step' = 0 is out of range"},
      {R"({"mlp_only_layers": 1})", "'mlp_only_layers' is not an array"},
      {R"({"mlp_only_layers": [1.5]})", "'mlp_only_layers' is not an integer"},
      {R"({"attention_bias": true})", "'attention_bias' = true"},
      {R"({"n_group": 4})", "'n_group' = 4"},
      {R"({"model_type": "qwen3_moe"})", "'shared_expert_intermediate_size' = 14"},
      {R"({"model_type": "mixtral"})", "'norm_topk_prob' = true"},
      {R"({"model_type": "olmoe", "clip_qkv": 8.0})", "'clip_qkv' = 8"},
      {R"({"model_type": "deepseek_v3"})", "\"deepseek_v3\" is not among those"},
      {R"({"model_type": "llama"})", "'num_experts' = 6"},
  };
  const std::pair<const char*, const char*> gpt2[] = {
      {R"({"activation_function": "gelu"})", "'activation_function' = \"gelu\""},
      {R"({"scale_attn_weights": false})", "'scale_attn_weights'"},
      {R"({"scale_attn_by_inverse_layer_idx": true})", "'scale_attn_by_inverse_layer_idx'"},
      {R"({"add_cross_attention": true})", "'add_cross_attention'"},
      {R"({"n_embd": null})", "'n_embd' is missing"},
      {R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})", "'rope_scaling'"},
  };
  const auto check = [](const Json& json, const auto& cases) {
    for (const auto& [change, says] : cases) {
      const auto text = message_of<Error>([&] { with(json, change); });
      EXPECT_NE(text.find(says), std::string::npos) << change << ": " << text;
      EXPECT_TRUE(text.starts_with("config.json cannot be imported")) << text;
    }
  };
  check(llama_config(), llama);
  check(qwen2_moe_config(), qwen2_moe);
  check(config_of_model(small_gpt2(), {}, ElementType::f32), gpt2);
  EXPECT_NE(message_of<Error>([] {
              model_of_config(config_of_model(small_gpt2(), {}, ElementType::f32), "c", 18);
            }).find("--context 18"),
            std::string::npos);
}

}  // namespace trireme
