#include "lib/interchange/hf_names.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// The part of this program's parameter that a tensor is. of_expert: the parameter is one expert's
// part of the tensor.
enum class Share : std::uint8_t { whole, transposed, queries, keys, values, gate, up, of_expert };

struct Row {
  std::string_view ours, theirs;  // # is a block's number, @ an expert's
  Share share = Share::whole;
};

// A row only applies if the model has the parameter.
constexpr Row gpt2_rows[] = {
    {"embedding.weight", "transformer.wte.weight"},
    {"positions.weight", "transformer.wpe.weight"},
    {"blocks.#.attention_norm.weight", "transformer.h.#.ln_1.weight"},
    {"blocks.#.attention_norm.bias", "transformer.h.#.ln_1.bias"},
    {"blocks.#.qkv.weight", "transformer.h.#.attn.c_attn.weight", Share::transposed},
    {"blocks.#.qkv.bias", "transformer.h.#.attn.c_attn.bias"},
    {"blocks.#.projection.weight", "transformer.h.#.attn.c_proj.weight", Share::transposed},
    {"blocks.#.projection.bias", "transformer.h.#.attn.c_proj.bias"},
    {"blocks.#.ffn_norm.weight", "transformer.h.#.ln_2.weight"},
    {"blocks.#.ffn_norm.bias", "transformer.h.#.ln_2.bias"},
    {"blocks.#.ffn_in.weight", "transformer.h.#.mlp.c_fc.weight", Share::transposed},
    {"blocks.#.ffn_in.bias", "transformer.h.#.mlp.c_fc.bias"},
    {"blocks.#.ffn_out.weight", "transformer.h.#.mlp.c_proj.weight", Share::transposed},
    {"blocks.#.ffn_out.bias", "transformer.h.#.mlp.c_proj.bias"},
    {"final_norm.weight", "transformer.ln_f.weight"},
    {"final_norm.bias", "transformer.ln_f.bias"},
    {"head.weight", hf_head},
};

constexpr Row llama_rows[] = {
    {"embedding.weight", "model.embed_tokens.weight"},
    {"blocks.#.q_norm.weight", "model.layers.#.self_attn.q_norm.weight"},
    {"blocks.#.k_norm.weight", "model.layers.#.self_attn.k_norm.weight"},
    {"blocks.#.projection.weight", "model.layers.#.self_attn.o_proj.weight"},
    {"blocks.#.projection.bias", "model.layers.#.self_attn.o_proj.bias"},
    {"blocks.#.ffn_out.weight", "model.layers.#.mlp.down_proj.weight"},
    {"blocks.#.ffn_out.bias", "model.layers.#.mlp.down_proj.bias"},
    {"final_norm.weight", "model.norm.weight"},
    {"head.weight", hf_head},
};

// Rows in addition to llama_rows. They depend on where the norms are.
constexpr Row norm_before_rows[] = {
    {"blocks.#.attention_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"blocks.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
};

constexpr Row norm_after_rows[] = {
    {"blocks.#.attention_out_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"blocks.#.ffn_out_norm.weight", "model.layers.#.post_feedforward_layernorm.weight"},
};

constexpr Row norm_both_rows[] = {
    {"blocks.#.attention_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"blocks.#.attention_out_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"blocks.#.ffn_norm.weight", "model.layers.#.pre_feedforward_layernorm.weight"},
    {"blocks.#.ffn_out_norm.weight", "model.layers.#.post_feedforward_layernorm.weight"},
};

// Rows in addition to llama_rows. They depend on how products are divided into tensors.
constexpr Row product_rows[] = {
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.q_proj.weight", Share::queries},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.k_proj.weight", Share::keys},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.v_proj.weight", Share::values},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.q_proj.bias", Share::queries},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.k_proj.bias", Share::keys},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.v_proj.bias", Share::values},
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.gate_proj.weight", Share::gate},
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.up_proj.weight", Share::up},
    {"blocks.#.ffn_in.bias", "model.layers.#.mlp.gate_proj.bias", Share::gate},
    {"blocks.#.ffn_in.bias", "model.layers.#.mlp.up_proj.bias", Share::up},
};

constexpr Row packed_product_rows[] = {
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.qkv_proj.weight"},
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.gate_up_proj.weight"},
};

// Rows for mixtures of experts.
constexpr Row mixture_rows[] = {
    {"blocks.#.router.weight", "model.layers.#.mlp.gate.weight"},
    {"blocks.#.shared_expert.gate.weight", "model.layers.#.mlp.shared_expert_gate.weight"},
    {"blocks.#.shared_expert.ffn_in.weight", "model.layers.#.mlp.shared_expert.gate_proj.weight",
     Share::gate},
    {"blocks.#.shared_expert.ffn_in.weight", "model.layers.#.mlp.shared_expert.up_proj.weight",
     Share::up},
    {"blocks.#.shared_expert.ffn_out.weight", "model.layers.#.mlp.shared_expert.down_proj.weight"},
};

constexpr Row expert_rows[] = {
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.@.gate_proj.weight",
     Share::gate},
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.@.up_proj.weight", Share::up},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.mlp.experts.@.down_proj.weight"},
};

constexpr Row experts_together_rows[] = {
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.gate_up_proj",
     Share::of_expert},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.mlp.experts.down_proj", Share::of_expert},
};

constexpr Row mixtral_rows[] = {
    {"blocks.#.router.weight", "model.layers.#.block_sparse_moe.gate.weight"},
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.block_sparse_moe.experts.@.w1.weight",
     Share::gate},
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.block_sparse_moe.experts.@.w3.weight",
     Share::up},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.block_sparse_moe.experts.@.w2.weight"},
};

constexpr std::string_view buffers[] = {"h.#.attn.bias", "h.#.attn.masked_bias",
                                        "layers.#.self_attn.rotary_emb.inv_freq",
                                        "rotary_emb.inv_freq"};

// Returns true for MixtralForCausalLM. It is the only exported architecture with experts that has
// neither of these features.
bool is_mixtral(const ModelConfig& c) {
  return !c.qk_norm && c.shared_expert_width == 0;
}

// Returns true for Gemma, the only exported family with norms at both places.
bool is_gemma(const ModelConfig& c) {
  return c.norm_place == NormPlace::both;
}

std::vector<Row> rows_of(const ModelConfig& c, ExpertTensors experts, ProductTensors products) {
  if (c.positions == Positions::learned) return {std::begin(gpt2_rows), std::end(gpt2_rows)};
  std::vector<Row> rows(std::begin(llama_rows), std::end(llama_rows));
  const auto add = [&](std::span<const Row> more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  if (c.norm_place == NormPlace::before) add(norm_before_rows);
  if (c.norm_place == NormPlace::after) add(norm_after_rows);
  if (c.norm_place == NormPlace::both) add(norm_both_rows);
  add(products == ProductTensors::apart ? std::span<const Row>(product_rows) : packed_product_rows);
  if (c.experts == 0) return rows;
  if (experts == ExpertTensors::apart && is_mixtral(c)) {
    add(mixtral_rows);
  } else {
    add(mixture_rows);
    add(experts == ExpertTensors::apart ? std::span<const Row>(expert_rows)
                                        : experts_together_rows);
  }
  return rows;
}

struct Rows {
  std::int64_t begin, count;
};

Rows rows_of(Share share, const ModelConfig& c, std::int64_t all) {
  const auto q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  switch (share) {
    case Share::queries:
      return {0, q};
    case Share::keys:
      return {q, kv};
    case Share::values:
      return {q + kv, kv};
    case Share::gate:
      return {0, all / 2};
    case Share::up:
      return {all / 2, all / 2};
    default:
      return {0, all};
  }
}

HfTensor tensor_of(const Row& row, std::string name, const ParamSpec& p, const ModelConfig& c) {
  const auto [begin, count] = rows_of(row.share, c, p.shape[0]);
  if (p.shape.dims() == 1) return {std::move(name), {count}, p.name, begin, Order::same};
  const auto columns = p.shape[1];
  if (row.share == Share::transposed)
    return {std::move(name), {columns, count}, p.name, 0, Order::transposed};
  return {std::move(name), {count, columns}, p.name, begin * columns, Order::same};
}

HfTensor of_expert(HfTensor t, std::string_view expert, std::int64_t experts) {
  std::from_chars(expert.data(), expert.data() + expert.size(), t.expert);
  t.experts = experts;
  return t;
}

// The numbers 3 and 7 of "blocks.3.experts.7.ffn_in.weight". A number that the name lacks is empty.
struct Numbers {
  std::string_view block, expert;
};

std::string_view number_behind(std::string_view word, std::string_view name) {
  const auto at = name.find(word);
  if (at == std::string_view::npos) return {};
  name.remove_prefix(at + word.size());
  return name.substr(0, name.find('.'));
}

Numbers numbers_in(std::string_view name) {
  if (!name.starts_with("blocks.")) return {};
  return {number_behind("blocks.", name), number_behind(".experts.", name)};
}

std::string with(const Numbers& numbers, std::string_view pattern) {
  std::string text;
  for (const char c : pattern)
    if (c == '#')
      text += numbers.block;
    else if (c == '@')
      text += numbers.expert;
    else
      text += c;
  return text;
}

void require_whole(const std::vector<HfTensor>& tensors, const ModelSpec& spec) {
  std::map<std::string_view, std::int64_t> covered;
  for (const auto& t : tensors) {
    require(t.begin == covered[t.param], "{} does not follow the previous tensor", t.name);
    covered[t.param] += t.shape.count();
  }
  for (const auto& p : spec.params)
    require(covered[p.name] == p.shape.count(), "no Hugging Face architecture has the parameter {}",
            p.name);
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelSpec& spec, ExpertTensors experts,
                                 ProductTensors products) {
  const auto& c = spec.config;
  const auto rows = rows_of(c, experts, products);
  std::vector<HfTensor> tensors;
  for (const auto& p : spec.params) {
    const auto numbers = numbers_in(p.name);
    for (const auto& row : rows) {
      if (with(numbers, row.ours) != p.name) continue;
      auto t = tensor_of(row, with(numbers, row.theirs), p, c);
      if (is_gemma(c) && p.name.ends_with("norm.weight")) t.plus = 1;
      tensors.push_back(row.share == Share::of_expert
                            ? of_expert(std::move(t), numbers.expert, c.experts)
                            : std::move(t));
    }
  }
  require_whole(tensors, spec);
  return tensors;
}

bool is_of_all_experts(std::string_view name) {
  return name.ends_with(".mlp.experts.gate_up_proj");
}

std::string_view hf_prefix(const ModelConfig& c) {
  return c.positions == Positions::learned ? "transformer." : "model.";
}

bool is_known_buffer(std::string_view name) {
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  // Names of buffers differ only in the number of the block.
  std::string pattern;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    if (!digit)
      pattern += name[i];
    else if (!pattern.ends_with('#'))
      pattern += '#';
  }
  return std::ranges::find(buffers, pattern) != std::end(buffers);
}

}  // namespace trireme
