// Names, shapes and places of tensors, against the classes of transformers: import(export) alone
// would not see what is wrong in both.
#include "lib/interchange/hf_names.hpp"

#include <gmock/gmock.h>

#include "tests/interchange/model_files.hpp"

namespace trireme {

using namespace test;

namespace {

// "NAME [SHAPE] is PARAMETER", "from BEGIN" on, of those whose name has `part`.
std::vector<std::string> tensors(const ModelConfig& model, std::string_view part) {
  std::vector<std::string> all;
  for (const auto& t : hf_tensors(make_spec(model)))
    if (t.name.find(part) != std::string::npos)
      all.push_back(fmt::format("{} {} is {}{}{}", t.name, to_string(t.shape), t.param,
                                t.begin > 0 ? fmt::format(" from {}", t.begin) : "",
                                t.order == Order::transposed ? ", transposed" : ""));
  return all;
}

}  // namespace

// GPT2LMHeadModel; its Conv1D has weights of [in, out].
TEST(HfNames, OfGpt2AreThoseOfItsClass) {
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

// LlamaForCausalLM with biases, and the norms of Qwen3ForCausalLM. 4 heads of queries and 2 each of
// keys and values, of 6 channels: rows 0, 24 and 36 of 48.
TEST(HfNames, OfLlamaAreThoseOfItsClass) {
  auto model = small_llama();
  model.bias = model.qk_norm = true;
  EXPECT_THAT(tensors(model, ".layers.1."),
              testing::UnorderedElementsAre(
                  "model.layers.1.input_layernorm.weight [24] is blocks.1.attention_norm.weight",
                  "model.layers.1.self_attn.q_proj.weight [24, 24] is blocks.1.qkv.weight",
                  "model.layers.1.self_attn.k_proj.weight [12, 24] is blocks.1.qkv.weight from 576",
                  "model.layers.1.self_attn.v_proj.weight [12, 24] is blocks.1.qkv.weight from 864",
                  "model.layers.1.self_attn.q_proj.bias [24] is blocks.1.qkv.bias",
                  "model.layers.1.self_attn.k_proj.bias [12] is blocks.1.qkv.bias from 24",
                  "model.layers.1.self_attn.v_proj.bias [12] is blocks.1.qkv.bias from 36",
                  "model.layers.1.self_attn.q_norm.weight [6] is blocks.1.q_norm.weight",
                  "model.layers.1.self_attn.k_norm.weight [6] is blocks.1.k_norm.weight",
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

TEST(HfNames, KnownBuffersAreThoseOfBlocks) {
  EXPECT_TRUE(is_known_buffer("transformer.h.11.attn.bias"));
  EXPECT_TRUE(is_known_buffer("h.0.attn.masked_bias"));
  EXPECT_TRUE(is_known_buffer("model.layers.3.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_known_buffer("h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_known_buffer("model.layers.3.self_attn.q_proj.bias"));
}

}  // namespace trireme
