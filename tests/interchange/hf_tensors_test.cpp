// Names, shapes and places of tensors, against the classes of transformers: import(export) alone
// would not see what is wrong in both.
#include "lib/interchange/hf_tensors.hpp"

#include <gmock/gmock.h>

#include "tests/interchange/model_files.hpp"

namespace trireme {

using namespace test;

namespace {

// "NAME [SHAPE] is PARAMETER", "from BEGIN" on, of those whose name has `part`.
std::vector<std::string> described(const std::vector<HfTensor>& tensors, std::string_view part) {
  std::vector<std::string> all;
  for (const auto& t : tensors)
    if (t.name.find(part) != std::string::npos)
      all.push_back(fmt::format("{}{} {} is {}{}{}{}", t.name,
                                t.experts > 0 ? fmt::format(" {} of {}", t.expert, t.experts) : "",
                                to_string(t.shape), t.param,
                                t.begin > 0 ? fmt::format(" from {}", t.begin) : "",
                                t.storage == TensorStorage::columns ? ", transposed"
                                : t.storage == TensorStorage::mxfp4 ? ", scaled by " + t.scales
                                                                    : "",
                                t.group > 0 ? ", in pairs" : ""));
  return all;
}

std::vector<std::string> tensors(const ModelConfig& model, std::string_view part) {
  return described(hf_tensors(make_spec(model)), part);
}

// In the table number `table` of a family.
std::vector<std::string> tensors_of(std::string_view type, std::size_t table,
                                    const ModelConfig& model, std::string_view part) {
  const auto family = std::ranges::find(families(), type, &Family::model_type);
  return described(hf_tensors(family->tensors.at(table), make_spec(model)), part);
}

}  // namespace

// GPT2LMHeadModel; its Conv1D has weights of [in, out].
TEST(HfTensors, OfGpt2AreThoseOfItsClass) {
  EXPECT_THAT(tensors(small_gpt2(), ".h.1."),
              testing::UnorderedElementsAre(
                  "transformer.h.1.ln_1.weight [24] is blocks.1.attention_norm.weight",
                  "transformer.h.1.ln_1.bias [24] is blocks.1.attention_norm.bias",
                  "transformer.h.1.attn.c_attn.weight [24, 72] is blocks.1.qkv.weight, transposed",
                  "transformer.h.1.attn.c_attn.bias [72] is blocks.1.qkv.bias",
                  "transformer.h.1.attn.c_proj.weight [24, 24] is blocks.1.projection.weight, "
                  "transposed",
                  "transformer.h.1.attn.c_proj.bias [24] is blocks.1.projection.bias",
                  "transformer.h.1.ln_2.weight [24] is blocks.1.ffn_norm.weight",
                  "transformer.h.1.ln_2.bias [24] is blocks.1.ffn_norm.bias",
                  "transformer.h.1.mlp.c_fc.weight [24, 96] is blocks.1.ffn_in.weight, transposed",
                  "transformer.h.1.mlp.c_fc.bias [96] is blocks.1.ffn_in.bias",
                  "transformer.h.1.mlp.c_proj.weight [96, 24] is blocks.1.ffn_out.weight, "
                  "transposed",
                  "transformer.h.1.mlp.c_proj.bias [24] is blocks.1.ffn_out.bias"));
  for (const char* name : {"transformer.wte.weight [257, 24] is embedding.weight",
                           "transformer.wpe.weight [17, 24] is positions.weight",
                           "transformer.ln_f.weight [24] is final_norm.weight",
                           "transformer.ln_f.bias [24] is final_norm.bias"})
    EXPECT_THAT(tensors(small_gpt2(), ""), testing::Contains(name));
}

// LlamaForCausalLM with biases. 4 heads of queries and 2 each of
// keys and values, of 6 channels: rows 0, 24 and 36 of 48.
TEST(HfTensors, OfLlamaAreThoseOfItsClass) {
  auto model = small_llama();
  model.bias = true;
  EXPECT_THAT(tensors(model, ".layers.1."),
              testing::UnorderedElementsAre(
                  "model.layers.1.input_layernorm.weight [24] is blocks.1.attention_norm.weight",
                  "model.layers.1.self_attn.q_proj.weight [24, 24] is blocks.1.qkv.weight",
                  "model.layers.1.self_attn.k_proj.weight [12, 24] is blocks.1.qkv.weight from 576",
                  "model.layers.1.self_attn.v_proj.weight [12, 24] is blocks.1.qkv.weight from 864",
                  "model.layers.1.self_attn.q_proj.bias [24] is blocks.1.qkv.bias",
                  "model.layers.1.self_attn.k_proj.bias [12] is blocks.1.qkv.bias from 24",
                  "model.layers.1.self_attn.v_proj.bias [12] is blocks.1.qkv.bias from 36",
                  "model.layers.1.self_attn.o_proj.weight [24, 24] is blocks.1.projection.weight",
                  "model.layers.1.self_attn.o_proj.bias [24] is blocks.1.projection.bias",
                  "model.layers.1.post_attention_layernorm.weight [24] is blocks.1.ffn_norm.weight",
                  "model.layers.1.mlp.gate_proj.weight [20, 24] is blocks.1.ffn_in.weight",
                  "model.layers.1.mlp.up_proj.weight [20, 24] is blocks.1.ffn_in.weight from 480",
                  "model.layers.1.mlp.gate_proj.bias [20] is blocks.1.ffn_in.bias",
                  "model.layers.1.mlp.up_proj.bias [20] is blocks.1.ffn_in.bias from 20",
                  "model.layers.1.mlp.down_proj.weight [24, 20] is blocks.1.ffn_out.weight",
                  "model.layers.1.mlp.down_proj.bias [24] is blocks.1.ffn_out.bias"));
  for (const char* name :
       {"model.embed_tokens.weight [257, 24] is embedding.weight",
        "model.norm.weight [24] is final_norm.weight", "lm_head.weight [257, 24] is head.weight"})
    EXPECT_THAT(tensors(model, ""), testing::Contains(name));
}

// MixtralForCausalLM: w1 is the gate, w3 goes up, w2 down.
TEST(HfTensors, OfMixtralAreThoseOfItsClass) {
  EXPECT_THAT(tensors(small_mixtral(), "layers.1.block_sparse_moe.gate"),
              testing::ElementsAre("model.layers.1.block_sparse_moe.gate.weight [5, 24] is "
                                   "blocks.1.router.weight"));
  EXPECT_THAT(tensors(small_mixtral(), "layers.1.block_sparse_moe.experts.4."),
              testing::UnorderedElementsAre(
                  "model.layers.1.block_sparse_moe.experts.4.w1.weight [20, 24] is "
                  "blocks.1.experts.4.ffn_in.weight",
                  "model.layers.1.block_sparse_moe.experts.4.w3.weight [20, 24] is "
                  "blocks.1.experts.4.ffn_in.weight from 480",
                  "model.layers.1.block_sparse_moe.experts.4.w2.weight [24, 20] is "
                  "blocks.1.experts.4.ffn_out.weight"));
  EXPECT_EQ(tensors(small_mixtral(), "block_sparse_moe").size(), 2U * (1 + 5 * 3));
  EXPECT_TRUE(tensors(small_mixtral(), ".mlp.").empty());
}

// Qwen2MoeForCausalLM, and but for the shared expert Qwen3MoeForCausalLM.
TEST(HfTensors, OfQwensMixturesAreThoseOfTheirClasses) {
  EXPECT_THAT(tensors(small_qwen2_moe(), "layers.1.mlp."),
              testing::UnorderedElementsAre(
                  "model.layers.1.mlp.gate_proj.weight [20, 24] is blocks.1.ffn_in.weight",
                  "model.layers.1.mlp.up_proj.weight [20, 24] is blocks.1.ffn_in.weight from 480",
                  "model.layers.1.mlp.down_proj.weight [24, 20] is blocks.1.ffn_out.weight"));
  const std::vector<std::string> of_expert = {
      "model.layers.2.mlp.experts.3.gate_proj.weight [12, 24] is blocks.2.experts.3.ffn_in.weight",
      "model.layers.2.mlp.experts.3.up_proj.weight [12, 24] is blocks.2.experts.3.ffn_in.weight "
      "from 288",
      "model.layers.2.mlp.experts.3.down_proj.weight [24, 12] is "
      "blocks.2.experts.3.ffn_out.weight"};
  for (const auto& model : {small_qwen2_moe(), small_qwen3_moe()}) {
    EXPECT_THAT(tensors(model, "layers.2.mlp.experts.3."),
                testing::UnorderedElementsAreArray(of_expert));
    EXPECT_THAT(
        tensors(model, "layers.2.mlp.gate."),
        testing::ElementsAre("model.layers.2.mlp.gate.weight [5, 24] is blocks.2.router.weight"));
  }
  EXPECT_THAT(
      tensors(small_qwen2_moe(), "layers.2.mlp.shared"),
      testing::UnorderedElementsAre("model.layers.2.mlp.shared_expert_gate.weight [1, 24] is "
                                    "blocks.2.shared_expert.gate.weight",
                                    "model.layers.2.mlp.shared_expert.gate_proj.weight [14, 24] is "
                                    "blocks.2.shared_expert.ffn_in.weight",
                                    "model.layers.2.mlp.shared_expert.up_proj.weight [14, 24] is "
                                    "blocks.2.shared_expert.ffn_in.weight from 336",
                                    "model.layers.2.mlp.shared_expert.down_proj.weight [24, 14] is "
                                    "blocks.2.shared_expert.ffn_out.weight"));
  EXPECT_TRUE(tensors(small_qwen3_moe(), "shared").empty());
}

// OlmoeForCausalLM: 4 heads of queries and 2 of keys, of 6 channels, have a weight a channel.
TEST(HfTensors, OfOlmoeAreThoseOfItsClass) {
  EXPECT_THAT(tensors(small_olmoe(), "layers.1.self_attn.q_norm"),
              testing::ElementsAre(
                  "model.layers.1.self_attn.q_norm.weight [24] is blocks.1.q_norm.weight"));
  EXPECT_THAT(tensors(small_olmoe(), "layers.1.self_attn.k_norm"),
              testing::ElementsAre(
                  "model.layers.1.self_attn.k_norm.weight [12] is blocks.1.k_norm.weight"));
  EXPECT_THAT(tensors(small_olmoe(), "layers.1.mlp.experts.4.down_proj"),
              testing::ElementsAre("model.layers.1.mlp.experts.4.down_proj.weight [24, 20] is "
                                   "blocks.1.experts.4.ffn_out.weight"));
}

// Olmo2ForCausalLM: of a block's norms none stands in front.
TEST(HfTensors, OfOlmo2AreThoseOfItsClass) {
  EXPECT_THAT(tensors(small_olmo2(), "layers.1.self_attn.k_norm"),
              testing::ElementsAre(
                  "model.layers.1.self_attn.k_norm.weight [12] is blocks.1.k_norm.weight"));
  EXPECT_THAT(tensors(small_olmo2(), "layernorm"),
              testing::ElementsAre("model.layers.0.post_attention_layernorm.weight [24] is "
                                   "blocks.0.attention_out_norm.weight",
                                   "model.layers.0.post_feedforward_layernorm.weight [24] is "
                                   "blocks.0.ffn_out_norm.weight",
                                   "model.layers.1.post_attention_layernorm.weight [24] is "
                                   "blocks.1.attention_out_norm.weight",
                                   "model.layers.1.post_feedforward_layernorm.weight [24] is "
                                   "blocks.1.ffn_out_norm.weight"));
}

// Gemma2ForCausalLM and Gemma3ForCausalLM, whose norms have weights less one.
TEST(HfTensors, OfGemmaAreThoseOfItsClass) {
  EXPECT_THAT(
      tensors(small_gemma3(), "layers.1."),
      testing::IsSupersetOf(
          {"model.layers.1.input_layernorm.weight [24] is blocks.1.attention_norm.weight",
           "model.layers.1.post_attention_layernorm.weight [24] is "
           "blocks.1.attention_out_norm.weight",
           "model.layers.1.pre_feedforward_layernorm.weight [24] is blocks.1.ffn_norm.weight",
           "model.layers.1.post_feedforward_layernorm.weight [24] is blocks.1.ffn_out_norm.weight",
           "model.layers.1.self_attn.k_norm.weight [6] is blocks.1.k_norm.weight"}));
  for (const auto& t : hf_tensors(make_spec(small_gemma3())))
    EXPECT_EQ(t.plus, t.shape.dims() == 1 ? 1 : 0) << t.name;
  for (const auto& t : hf_tensors(make_spec(small_llama()))) EXPECT_EQ(t.plus, 0) << t.name;
}

// Phi3ForCausalLM: 4 + 2 + 2 heads of 6 rows; 20 of gate, then 20 of up.
TEST(HfTensors, OfPhi3AreThoseOfItsClass) {
  EXPECT_THAT(tensors_of("phi3", 0, small_llama(), ".layers.1."),
              testing::UnorderedElementsAre(
                  "model.layers.1.input_layernorm.weight [24] is blocks.1.attention_norm.weight",
                  "model.layers.1.self_attn.qkv_proj.weight [48, 24] is blocks.1.qkv.weight",
                  "model.layers.1.self_attn.o_proj.weight [24, 24] is blocks.1.projection.weight",
                  "model.layers.1.post_attention_layernorm.weight [24] is blocks.1.ffn_norm.weight",
                  "model.layers.1.mlp.gate_up_proj.weight [40, 24] is blocks.1.ffn_in.weight",
                  "model.layers.1.mlp.down_proj.weight [24, 20] is blocks.1.ffn_out.weight"));
}

// As save_pretrained(save_original_format=False) of version 5 writes any of them.
TEST(HfTensors, ExpertsMayStandTogether) {
  const std::pair<const char*, ModelConfig> mixtures[] = {{"mixtral", small_mixtral()},
                                                          {"qwen3_moe", small_qwen3_moe()}};
  for (const auto& [type, model] : mixtures) {
    const auto two_f = 2 * model.expert_width;
    EXPECT_THAT(tensors_of(type, 1, model, "layers.0.mlp.experts"),
                testing::IsSupersetOf(
                    {fmt::format("model.layers.0.mlp.experts.gate_up_proj 0 of 5 [{}, 24] is "
                                 "blocks.0.experts.0.ffn_in.weight",
                                 two_f),
                     fmt::format("model.layers.0.mlp.experts.gate_up_proj 4 of 5 [{}, 24] is "
                                 "blocks.0.experts.4.ffn_in.weight",
                                 two_f),
                     fmt::format("model.layers.0.mlp.experts.down_proj 4 of 5 [24, {}] is "
                                 "blocks.0.experts.4.ffn_out.weight",
                                 model.expert_width)}));
    EXPECT_THAT(
        tensors_of(type, 1, model, "layers.0.mlp.gate."),
        testing::ElementsAre("model.layers.0.mlp.gate.weight [5, 24] is blocks.0.router.weight"));
  }
}

// Glm4ForCausalLM: 4 heads of queries and 2 each of keys and values, of 6 channels.
TEST(HfTensors, OfGlm4AreThoseOfItsClass) {
  EXPECT_THAT(
      tensors(small_glm4(), ".layers.1."),
      testing::UnorderedElementsAre(
          "model.layers.1.input_layernorm.weight [24] is blocks.1.attention_norm.weight",
          "model.layers.1.self_attn.q_proj.weight [24, 24] is blocks.1.qkv.weight, in pairs",
          "model.layers.1.self_attn.k_proj.weight [12, 24] is blocks.1.qkv.weight from 576, "
          "in pairs",
          "model.layers.1.self_attn.v_proj.weight [12, 24] is blocks.1.qkv.weight from 864",
          "model.layers.1.self_attn.q_proj.bias [24] is blocks.1.qkv.bias, in pairs",
          "model.layers.1.self_attn.k_proj.bias [12] is blocks.1.qkv.bias from 24, in pairs",
          "model.layers.1.self_attn.v_proj.bias [12] is blocks.1.qkv.bias from 36",
          "model.layers.1.self_attn.o_proj.weight [24, 24] is blocks.1.projection.weight",
          "model.layers.1.post_self_attn_layernorm.weight [24] is "
          "blocks.1.attention_out_norm.weight",
          "model.layers.1.post_attention_layernorm.weight [24] is blocks.1.ffn_norm.weight",
          "model.layers.1.mlp.gate_up_proj.weight [40, 24] is blocks.1.ffn_in.weight",
          "model.layers.1.mlp.down_proj.weight [24, 20] is blocks.1.ffn_out.weight",
          "model.layers.1.post_mlp_layernorm.weight [24] is blocks.1.ffn_out_norm.weight"));
}

// In a head of 6 channels of which 4 rotate, the channels (0, 1) and (2, 3) of the file are the
// pairs (0, 3) and (1, 4). Channels 4 and 5 of the file follow as 2 and 5.
TEST(HfTensors, ChannelsThatRotateTogetherAreNeighborsInTheFile) {
  const HfTensor t{.name = "", .shape = {12, 1}, .param = "", .group = 6, .interleaved = 4};
  std::vector<std::int64_t> there;
  for (std::int64_t row = 0; row < 12; ++row) there.push_back(t.row_in_tensor(row));
  EXPECT_THAT(there, testing::ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11));
}

// GptOssForCausalLM: weights of experts are [in, out], and their columns alternate between gate and
// up.
TEST(HfTensors, OfGptOssAreThoseOfItsClass) {
  const std::string experts = "model.layers.1.mlp.experts.";
  EXPECT_THAT(tensors(small_gpt_oss(), ".layers.1.self_attn."),
              testing::IsSupersetOf(
                  {"model.layers.1.self_attn.q_proj.bias [24] is blocks.1.qkv.bias",
                   "model.layers.1.self_attn.o_proj.bias [24] is blocks.1.projection.bias",
                   "model.layers.1.self_attn.sinks [4] is blocks.1.attention_sinks.weight"}));
  EXPECT_THAT(tensors(small_gpt_oss(), ".layers.1.mlp.router."),
              testing::UnorderedElementsAre(
                  "model.layers.1.mlp.router.weight [5, 24] is blocks.1.router.weight",
                  "model.layers.1.mlp.router.bias [5] is blocks.1.router.bias"));
  EXPECT_THAT(tensors(small_gpt_oss(), experts),
              testing::IsSupersetOf({experts + "gate_up_proj 4 of 5 [24, 40] is "
                                               "blocks.1.experts.4.ffn_in.weight, transposed, "
                                               "in pairs",
                                     experts + "gate_up_proj_bias 4 of 5 [40] is "
                                               "blocks.1.experts.4.ffn_in.bias, in pairs",
                                     experts + "down_proj 4 of 5 [20, 24] is "
                                               "blocks.1.experts.4.ffn_out.weight, transposed",
                                     experts + "down_proj_bias 4 of 5 [24] is "
                                               "blocks.1.experts.4.ffn_out.bias"}));
  EXPECT_EQ(tensors(small_gpt_oss(), experts).size(), 5U * 4);
  EXPECT_THAT(tensors_of("gpt_oss", 1, small_gpt_oss(), experts),
              testing::IsSupersetOf({experts +
                                         "gate_up_proj_blocks 4 of 5 [40, 24] is "
                                         "blocks.1.experts.4.ffn_in.weight, scaled by " +
                                         experts + "gate_up_proj_scales, in pairs",
                                     experts +
                                         "down_proj_blocks 4 of 5 [24, 20] is "
                                         "blocks.1.experts.4.ffn_out.weight, scaled by " +
                                         experts + "down_proj_scales"}));
}

// Rows 0 to 2 of the gate and rows 3 to 5 of `up` alternate in the file.
TEST(HfTensors, GateAndUpAlternateInTheFile) {
  const HfTensor t{.name = "",
                   .shape = {2, 6},
                   .param = "",
                   .storage = TensorStorage::columns,
                   .group = 6,
                   .interleaved = 6};
  EXPECT_EQ(t.rows(), 6);
  EXPECT_EQ(t.columns(), 2);
  std::vector<std::int64_t> there;
  for (std::int64_t row = 0; row < 6; ++row) there.push_back(t.row_in_tensor(row));
  EXPECT_THAT(there, testing::ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(HfTensors, EachFamilyHasATensorForEachParameterOfItsModels) {
  for (const auto& [name, model] : small_models())
    for (const auto& table : family_of(model).tensors)
      EXPECT_EQ(message_of<Error>([&] { hf_tensors(table, make_spec(model)); }), "") << name;
}

TEST(HfTensors, KnownBuffersAreThoseOfBlocks) {
  EXPECT_TRUE(is_known_buffer("transformer.h.11.attn.bias"));
  EXPECT_TRUE(is_known_buffer("h.0.attn.masked_bias"));
  EXPECT_TRUE(is_known_buffer("model.layers.3.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_known_buffer("h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_known_buffer("model.layers.3.self_attn.q_proj.bias"));
}

}  // namespace trireme
