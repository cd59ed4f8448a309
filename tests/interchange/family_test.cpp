// What no family expresses, and what a config.json says that cannot be represented, is refused by
// name.
#include "lib/interchange/family.hpp"

#include "lib/deck/table.hpp"
#include "lib/interchange/families/gemma.hpp"
#include "tests/interchange/config_files.hpp"

namespace trireme {

using namespace test;

namespace {

// Expects that no family expresses the changed model, and that the message contains `says`.
template <class Change>
void expect_refused(ModelConfig c, Change change, std::string_view says) {
  change(c);
  const auto text = message_of<Error>([&] { family_of(c); });
  EXPECT_NE(text.find(says), std::string::npos) << says << ": " << text;
}

// Changes the value of a key to another one that the key accepts. Returns false if there is none.
bool change(const Key& key, Deck& deck) {
  auto value = key.access.get(deck, 0);
  if (auto* const flag = std::get_if<bool>(&value)) {
    *flag = !*flag;
  } else if (auto* const n = std::get_if<std::int64_t>(&value)) {
    *n += 2;
  } else if (auto* const x = std::get_if<double>(&value)) {
    *x = *x == 0 ? 0.5 : *x * 2;
  } else if (auto* const list = std::get_if<std::vector<std::int64_t>>(&value)) {
    *list = list->empty() ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{};
  } else if (!key.choices.empty()) {
    value = key.choices.front() == std::get<std::string>(value) ? key.choices.back()
                                                                : key.choices.front();
  } else if (std::holds_alternative<Automatic>(value) && key.kind == ValueKind::real) {
    value = 0.5;
  } else {
    return false;
  }
  key.access.set(deck, 0, value);
  return true;
}

}  // namespace

TEST(Family, AModelThatNoFamilyExpressesIsRefusedByTheKeysThatDiffer) {
  const auto gpt2 = small_gpt2(), llama = small_llama();
  expect_refused(
      gpt2, [](auto& c) { c.norm = NormKind::rms; },
      "no architecture of transformers fits this model. GPT2LMHeadModel requires model.norm = "
      "\"layer\" instead of \"rms\". Change this and train again, or export with --format hdf5");
  expect_refused(
      gpt2, [](auto& c) { c.kv_heads = 1, c.logit_softcap = 30; },
      "GPT2LMHeadModel requires model.kv_heads = 3 instead of 1, model.logit_softcap = 0 instead "
      "of 30");
  expect_refused(
      llama, [](auto& c) { c.activation = ActivationKind::gelu; }, "instead of \"gelu\"");
  expect_refused(
      llama, [](auto& c) { c.qk_norm = c.bias = true; },
      "The nearest architectures: LlamaForCausalLM requires model.qk_norm = false instead of true; "
      "GraniteForCausalLM requires");
  expect_refused(
      llama, [](auto& c) { c.attention_sinks = true; },
      "model.attention_sinks = false instead of true");
  expect_refused(
      llama, [](auto& c) { c.scale_embedding = true; },
      "model.scale_embedding = false instead of true");
  const auto gemma2 = small_gemma2(), gemma3 = small_gemma3();
  expect_refused(
      gemma2, [](auto& c) { c.attention_scale = 0.3; },
      "Gemma2ForCausalLM requires model.attention_scale = \"auto\" instead of 0.3");
  expect_refused(
      gemma3,
      [](auto& c) {
        c.window_rope_theta = 0;
        c.rope_scaling = RopeScaling::linear;
      },
      "Gemma3ForCausalLM requires model.window_rope_theta = 50000 instead of \"auto\"");
  expect_refused(
      small_olmo2(), [](auto& c) { c.qk_norm_over = QkNormOver::head; },
      "model.qk_norm_over = \"width\" instead of \"head\"");
  expect_refused(
      small_olmoe(), [](auto& c) { c.dense_layers = {1}; },
      "OlmoeForCausalLM requires model.dense_layers = [] instead of [1]");
  expect_refused(
      small_olmoe(), [](auto& c) { c.head_dim = 8; },
      "OlmoeForCausalLM requires model.head_dim = 6 instead of 8");
  expect_refused(
      small_mixtral(), [](auto& c) { c.router = RouterScores::sigmoid; },
      "MixtralForCausalLM requires model.router = \"softmax\" instead of \"sigmoid\"");
  expect_refused(
      small_qwen2_moe(), [](auto& c) { c.shared_expert_gate = false; },
      "Qwen2MoeForCausalLM requires model.shared_expert_gate = true instead of false");
  expect_refused(
      small_qwen3_moe(), [](auto& c) { c.shared_expert_width = 8; },
      "model.shared_expert_width = 0 instead of 8");
  expect_refused(
      small_gpt_oss(), [](auto& c) { c.expert_bias = false; },
      "GptOssForCausalLM requires model.expert_bias = true instead of false");
  expect_refused(
      small_granite(), [](auto& c) { c.nope_layers = {1}; },
      "GraniteForCausalLM requires model.nope_layers = [] instead of [1]");
}

// Whatever key is changed: the model that comes back is the changed one, or the export is refused.
TEST(Family, NoKeyOfAModelIsLostInSilence) {
  int changed = 0, refused = 0;
  for (const auto& [name, model] : small_models())
    for (const auto& key : find_section("model")->keys) {
      Deck deck;
      deck.model = model;
      deck.data.context = 1;  // fewer than the model's positions, which are then a number
      if (!change(key, deck) || deck.model == model) continue;
      const auto& c = deck.model;
      ++changed;
      if (!message_of<Error>([&] { family_of(c); }).empty()) {
        ++refused;
        continue;
      }
      const auto back = model_of_config(config_of_model(c, {}, ElementType::f32), "config.json");
      EXPECT_EQ(canonical(back), canonical(c)) << name << " with another " << key.path();
    }
  EXPECT_GT(changed, 1000);
  EXPECT_GT(refused, 500);
}

TEST(Family, AScaleThatPythonRoundedIsWrittenAsItsNumber) {
  auto of_python = small_gemma2();
  of_python.attention_scale = 0.37796447300922725;  // 7**-0.5, not 1 / sqrt(7)
  EXPECT_EQ(query_scalar_of(of_python), 7);
  EXPECT_EQ(family_of(of_python).architecture, "Gemma2ForCausalLM");
  for (int percent = 1; percent < 100; ++percent) {
    auto granite = small_granite();
    granite.logit_scale = percent / 100.0;
    EXPECT_EQ(family_of(granite).architecture, "GraniteForCausalLM") << percent;
  }
}

TEST(Family, WhatCannotBeRepresentedByItsName) {
  const std::pair<const char*, const char*> llama[] = {
      {R"({"model_type": "gemma"})", "\"gemma\""},
      {R"({"model_type": null})", "'model_type'"},
      {R"({"hidden_act": "gelu"})", "'hidden_act' = \"gelu\""},
      {R"({"attention_bias": true})", "'attention_bias' = true"},
      {R"({"mlp_bias": true})", "'mlp_bias' = true"},
      {R"({"model_type": "qwen3", "attention_bias": true})", "'attention_bias' = true"},
      {R"({"rope_scaling": {"rope_type": "yarn"}})", "'rope_scaling.factor'"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "attention_factor": 0}})",
       "'rope_scaling.attention_factor' = 0: it must be a number above 0"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "attention_factor": -1.5}})",
       "'rope_scaling.attention_factor' = -1.5"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "beta_slow": 0}})",
       "'rope_scaling.beta_slow' = 0"},
      {R"({"model_type": "gemma3_text", "rope_local_base_freq": 0})", "'rope_local_base_freq' = 0"},
      {R"({"model_type": "gemma3_text", "rope_parameters": {"sliding_attention":
          {"rope_theta": 0}}})",
       "'rope_parameters.sliding_attention.rope_theta' = 0"},
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
       "'rope_scaling.type' = \"linear\": the class of transformers for this type of model reads "
       "only 'rope_type'"},
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
       "'rope_type' = \"su\" in a model of type \"phi3\" means \"longrope\""},
      {R"({"model_type": "phi3", "rope_scaling": {"type": "yarn", "factor": 2.0}})",
       "\"longrope\""},
      {R"({"model_type": "olmo3", "rope_theta": 7000})",
       "'rope_theta' = 7000: versions 4 and 5 of transformers use different bases"},
      {R"({"model_type": "olmo3", "rope_theta": 500000, "rope_scaling": "x"})",
       "'rope_scaling' = \"x\": it must be a JSON object"},
      {R"({"model_type": "olmo3", "rope_parameters": {"full_attention": 5}})",
       "its members must be JSON objects"},
      {R"({"model_type": "gemma3_text", "rope_scaling": [1]})",
       "'rope_scaling' must be a JSON object"},
      {R"({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8},
          "rope_parameters": {"sliding_attention": {"rope_theta": 5}}})",
       "'rope_scaling' = "},
      {R"({"model_type": "glm4", "head_dim": 8, "partial_rotary_factor": 1e30})",
       "'rope_parameters.partial_rotary_factor'"},
      {R"({"model_type": "glm4", "head_dim": 8, "partial_rotary_factor": 0.5,
          "rope_parameters": {"partial_rotary_factor": 0.25}})",
       "'partial_rotary_factor' = 0.5: the rotary settings contain another value"},
      {R"({"model_type": "smollm3", "no_rope_layers": [1]})",
       "'no_rope_layers' = [1]: it must be an array of 2 numbers"},
      {R"({"model_type": "smollm3", "no_rope_layers": [1, 2]})", "'no_rope_layers' = 2"},
      {R"({"model_type": "granite", "logits_scaling": 0})", "'logits_scaling' = 0"},
      {R"({"model_type": "glm4", "head_dim": 6})", "'partial_rotary_factor' = 0.5 rotates 3 of 6"},
      {R"({"model_type": "olmoe", "num_experts": 4, "head_dim": 8})", "'head_dim' = 8: versions"},
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
      {R"({"rope_scaling": "linear"})", "'rope_scaling' must be a JSON object, but is \"linear\""},
      {R"({"rope_interleaved": true})", "'rope_interleaved' = true"},
      {R"({"logit_scale": 0.5, "qk\u001bnorm": true})",
       "'logit_scale' = 0.5, 'qk\\x1bnorm' = true: import does not support this with the type "
       "\"llama\""},
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
      {R"({"hidden_size": 26})", "'num_attention_heads' = 4 does not divide 'hidden_size' = 26"},
      {R"({"hidden_size": 26, "head_dim": 6})", "does not divide 'hidden_size' = 26"},
      {R"({"rms_norm_eps": "x"})", "'rms_norm_eps'"},
      {R"({"tie_word_embeddings": 1})", "'tie_word_embeddings'"},
  };
  const std::pair<const char*, const char*> qwen2_moe[] = {
      {R"({"num_experts_per_tok": 7})", "'num_experts_per_tok' = 7: a layer has 6 experts"},
      {R"({"num_experts_per_tok": 0})", "'num_experts_per_tok' = 0 is out of range"},
      {R"({"num_experts": 0})", "'num_experts' = 0 is out of range"},
      {R"({"num_experts": null})", "'num_experts' is missing"},
      {R"({"model_type": "mixtral", "num_experts": null, "norm_topk_prob": null})",
       "'num_local_experts' is missing"},
      {R"({"num_local_experts": 5})",
       "'num_local_experts' = 5 and 'num_experts' = 6 must be equal"},
      {R"({"norm_topk_prob": 1})", "'norm_topk_prob' must be true or false, but is 1"},
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
      {R"({"model_type": "deepseek_v3"})", "\"deepseek_v3\" cannot be imported"},
      {R"({"model_type": "llama"})", "'num_experts' = 6"},
  };
  const std::pair<const char*, const char*> gpt2[] = {
      {R"({"activation_function": "gelu"})", "'activation_function' = \"gelu\""},
      {R"({"scale_attn_weights": false})", "'scale_attn_weights'"},
      {R"({"scale_attn_by_inverse_layer_idx": true})", "'scale_attn_by_inverse_layer_idx'"},
      {R"({"add_cross_attention": true})", "'add_cross_attention'"},
      {R"({"n_embd": null})", "'n_embd' is missing"},
      {R"({"n_embd": 26})", "'n_head' = 3 does not divide 'n_embd' = 26"},
      {R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})", "'rope_scaling'"},
  };
  const std::pair<const char*, const char*> gpt_oss[] = {
      {R"({"swiglu_alpha": 1.5})", "'swiglu_alpha' = 1.5"},
      {R"({"swiglu_limit": 5})", "'swiglu_limit' = 5"},
      {R"({"experts_per_token": 3})", "'experts_per_token' = 3"},
      {R"({"hidden_act": "gelu"})", "'hidden_act' = \"gelu\""},
      {R"({"mlp_bias": true})", "'mlp_bias' = true"},
      {R"({"quantization_config": {"quant_method": "gptq"}})", "only MXFP4 is supported"},
      {R"({"quantization_config": 4})", "'quantization_config' must be a JSON object"},
      {R"({"rope_scaling": null})", "understand an empty 'rope_scaling' differently"},
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
  check(config_of_model(small_gpt_oss(), {}, ElementType::f32), gpt_oss);
  check(config_of_model(small_gpt2(), {}, ElementType::f32), gpt2);
}

}  // namespace trireme
