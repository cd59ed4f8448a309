#include "lib/interchange/hf_names.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// What of our parameter a tensor is.
enum class Share : std::uint8_t { whole, transposed, queries, keys, values, gate, up };

struct Row {
  std::string_view ours, theirs;  // # is the block's number
  Share share = Share::whole;
};

// A row counts where the model has the parameter.
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
    {"blocks.#.attention_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.q_proj.weight", Share::queries},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.k_proj.weight", Share::keys},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.v_proj.weight", Share::values},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.q_proj.bias", Share::queries},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.k_proj.bias", Share::keys},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.v_proj.bias", Share::values},
    {"blocks.#.q_norm.weight", "model.layers.#.self_attn.q_norm.weight"},
    {"blocks.#.k_norm.weight", "model.layers.#.self_attn.k_norm.weight"},
    {"blocks.#.projection.weight", "model.layers.#.self_attn.o_proj.weight"},
    {"blocks.#.projection.bias", "model.layers.#.self_attn.o_proj.bias"},
    {"blocks.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.gate_proj.weight", Share::gate},
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.up_proj.weight", Share::up},
    {"blocks.#.ffn_in.bias", "model.layers.#.mlp.gate_proj.bias", Share::gate},
    {"blocks.#.ffn_in.bias", "model.layers.#.mlp.up_proj.bias", Share::up},
    {"blocks.#.ffn_out.weight", "model.layers.#.mlp.down_proj.weight"},
    {"blocks.#.ffn_out.bias", "model.layers.#.mlp.down_proj.bias"},
    {"final_norm.weight", "model.norm.weight"},
    {"head.weight", hf_head},
};

constexpr std::string_view buffers[] = {"h.#.attn.bias", "h.#.attn.masked_bias",
                                        "layers.#.self_attn.rotary_emb.inv_freq",
                                        "rotary_emb.inv_freq"};

std::span<const Row> rows_of(const ModelConfig& c) {
  if (c.positions == Positions::learned) return gpt2_rows;
  return llama_rows;
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
      return {0, c.ffn_width};
    case Share::up:
      return {c.ffn_width, c.ffn_width};
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

std::string with_number(std::string_view pattern, std::string_view number) {
  std::string text(pattern);
  if (const auto at = text.find('#'); at != std::string::npos) text.replace(at, 1, number);
  return text;
}

// The number of "blocks.3.qkv.weight", empty where there is none.
std::string_view number_in(std::string_view name) {
  constexpr std::string_view blocks = "blocks.";
  if (!name.starts_with(blocks)) return {};
  name.remove_prefix(blocks.size());
  return name.substr(0, name.find('.'));
}

void require_whole(const std::vector<HfTensor>& tensors, const ModelSpec& spec) {
  std::map<std::string_view, std::int64_t> covered;
  for (const auto& t : tensors) {
    require(t.begin == covered[t.param], "{} does not lie behind the tensor before it", t.name);
    covered[t.param] += t.shape.count();
  }
  for (const auto& p : spec.params)
    require(covered[p.name] == p.shape.count(), "no architecture of Hugging Face has {}", p.name);
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelSpec& spec) {
  std::vector<HfTensor> tensors;
  for (const auto& p : spec.params) {
    const auto number = number_in(p.name);
    for (const auto& row : rows_of(spec.config))
      if (with_number(row.ours, number) == p.name)
        tensors.push_back(tensor_of(row, with_number(row.theirs, number), p, spec.config));
  }
  require_whole(tensors, spec);
  return tensors;
}

std::string_view hf_prefix(const ModelConfig& c) {
  return c.positions == Positions::learned ? "transformer." : "model.";
}

bool is_known_buffer(std::string_view name) {
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  // The number of a block is all that differs.
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
