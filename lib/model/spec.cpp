#include "lib/model/spec.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/base/pattern.hpp"
#include "lib/model/add_adapters.hpp"

namespace trireme {

std::vector<AdaptedProduct> products_of(const ModelConfig& c, const ParamSpec& weight) {
  const auto name = weight.name.substr(0, weight.name.rfind(".weight"));
  const bool one = weight.packed.empty() ||
                   (c.positions == Positions::learned && weight.packed.front().name == "q");
  if (one) return {{name, 0, weight.shape[0]}};
  std::vector<AdaptedProduct> products;
  for (const auto& cut : weight.packed)
    products.push_back({fmt::format("{}.{}", name, cut.name), cut.row, cut.rows});
  return products;
}

namespace {

class Builder {
 public:
  explicit Builder(ModelSpec& spec) : spec_(spec) {}

  UnitId unit(std::string name) {
    spec_.units.push_back(std::move(name));
    return UnitId::at(spec_.units.size() - 1);
  }
  ParamId weight(UnitId u, const std::string& name, ParamRole role, const Shape& shape,
                 double std) {
    return add({name + ".weight", role, shape, u, true, std, 0});
  }
  ParamId bias(UnitId u, const std::string& name, ParamRole role, std::int64_t n) {
    return add({name + ".bias", role, {n}, u, false, 0, 0});
  }
  ParamId linear_bias(UnitId u, const std::string& name, std::int64_t n) {
    return spec_.config.bias ? bias(u, name, ParamRole::linear, n) : ParamId{};
  }
  ParamId norm(UnitId u, const std::string& name, std::int64_t n) {
    return add({name + ".weight", ParamRole::norm, {n}, u, false, 0, 1});
  }
  ParamId norm(UnitId u, const std::string& name) { return norm(u, name, spec_.config.width); }
  ParamId of_expert(std::int64_t e, ParamId p) {
    spec_.params[p.index()].expert = e;
    return p;
  }
  // Adds the rows of q, k and v to a weight or bias.
  ParamId cut_qkv(ParamId p) {
    const auto& c = spec_.config;
    const auto q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    if (p != ParamId{})
      spec_.params[p.index()].packed = {{"q", 0, q}, {"k", q, kv}, {"v", q + kv, kv}};
    return p;
  }
  // Adds the rows of gate and up to a weight or bias.
  ParamId cut_gate_up(ParamId p) {
    if (p == ParamId{}) return p;
    auto& param = spec_.params[p.index()];
    const auto half = param.shape[0] / 2;
    param.packed = {{"gate", 0, half}, {"up", half, half}};
    return p;
  }
  ParamId sinks(UnitId u, const std::string& name, std::int64_t heads) {
    return add({name + ".weight", ParamRole::sinks, {heads}, u, false, 0, 0});
  }
  ParamId router_bias(UnitId u, const std::string& name, std::int64_t n) {
    return add({name + ".bias", ParamRole::router, {n}, u, false, 0, 0, LearnsFrom::loads, true});
  }
  ParamId expert_bias(UnitId u, const std::string& name, ParamRole role, std::int64_t n) {
    return spec_.config.expert_bias ? bias(u, name, role, n) : ParamId{};
  }
  ParamId norm_bias(UnitId u, const std::string& name) {
    const auto& c = spec_.config;
    return c.norm == NormKind::layer && c.bias ? bias(u, name, ParamRole::norm, c.width)
                                               : ParamId{};
  }
  ParamId qk_norm(UnitId u, const std::string& name, std::int64_t heads) {
    const auto& c = spec_.config;
    if (!c.qk_norm) return {};
    return norm(u, name, c.qk_norm_over == QkNormOver::head ? c.head_dim : heads * c.head_dim);
  }

 private:
  ParamId add(ParamSpec p) {
    spec_.params.push_back(std::move(p));
    return ParamId::at(spec_.params.size() - 1);
  }
  ModelSpec& spec_;
};

}  // namespace

constexpr double init_std = 0.02;  // Radford et al. 2019

// Adds a router and experts.
static void add_experts(Builder& b, const ModelConfig& c, const std::string& name,
                        double residual_std, BlockParams& p) {
  const auto in = [&](const std::string& of, ParamRole role, std::int64_t hidden) {
    return b.cut_gate_up(b.weight(p.unit, of + ".ffn_in", role, {2 * hidden, c.width}, init_std));
  };
  const auto out = [&](const std::string& of, ParamRole role, std::int64_t hidden) {
    return b.weight(p.unit, of + ".ffn_out", role, {c.width, hidden}, residual_std);
  };
  p.router = b.weight(p.unit, name + ".router", ParamRole::router, {c.experts, c.width}, init_std);
  if (c.router == RouterScores::sigmoid)
    p.router_bias = b.router_bias(p.unit, name + ".router", c.experts);
  else
    p.logit_bias = b.expert_bias(p.unit, name + ".router", ParamRole::router, c.experts);
  if (c.shared_expert_width > 0) {
    const auto shared = name + ".shared_expert";
    if (c.shared_expert_gate)
      p.shared_gate =
          b.weight(p.unit, shared + ".gate", ParamRole::shared_gate, {1, c.width}, init_std);
    p.shared_in = in(shared, ParamRole::linear, c.shared_expert_width);
    p.shared_out = out(shared, ParamRole::linear, c.shared_expert_width);
  }
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const auto expert = name + ".experts." + std::to_string(e);
    const auto add = [&](std::vector<ParamId>& to, ParamId param) {
      if (param != ParamId{}) to.push_back(b.of_expert(e, param));
    };
    add(p.expert_in, in(expert, ParamRole::expert, c.expert_width));
    add(p.expert_in_bias, b.cut_gate_up(b.expert_bias(p.unit, expert + ".ffn_in", ParamRole::expert,
                                                      2 * c.expert_width)));
    add(p.expert_out, out(expert, ParamRole::expert, c.expert_width));
    add(p.expert_out_bias, b.expert_bias(p.unit, expert + ".ffn_out", ParamRole::expert, c.width));
  }
}

// Adds all norms of a block except the norm before attention.
static void add_other_norms(Builder& b, const ModelConfig& c, const std::string& name,
                            BlockParams& p) {
  if (norms_after(c)) {
    p.attention_out_norm = b.norm(p.unit, name + ".attention_out_norm");
    p.attention_out_norm_bias = b.norm_bias(p.unit, name + ".attention_out_norm");
    p.ffn_out_norm = b.norm(p.unit, name + ".ffn_out_norm");
    p.ffn_out_norm_bias = b.norm_bias(p.unit, name + ".ffn_out_norm");
  }
  if (norms_before(c)) {
    p.ffn_norm = b.norm(p.unit, name + ".ffn_norm");
    p.ffn_norm_bias = b.norm_bias(p.unit, name + ".ffn_norm");
  }
}

static BlockParams add_block(Builder& b, const ModelConfig& c, std::int64_t layer) {
  const std::string name = "blocks." + std::to_string(layer);
  const auto packed = (c.heads + 2 * c.kv_heads) * c.head_dim;
  const auto hidden = is_gated(c.activation) ? 2 * c.ffn_width : c.ffn_width;
  // The residual stream is the sum of 2 * layers branches.
  const double residual_std = init_std / std::sqrt(2.0 * static_cast<double>(c.layers));
  BlockParams p;
  p.unit = b.unit(name);
  if (norms_before(c)) {
    p.attention_norm = b.norm(p.unit, name + ".attention_norm");
    p.attention_norm_bias = b.norm_bias(p.unit, name + ".attention_norm");
  }
  p.qkv =
      b.cut_qkv(b.weight(p.unit, name + ".qkv", ParamRole::linear, {packed, c.width}, init_std));
  if (c.bias || c.qkv_bias)
    p.qkv_bias = b.cut_qkv(b.bias(p.unit, name + ".qkv", ParamRole::linear, packed));
  p.q_norm = b.qk_norm(p.unit, name + ".q_norm", c.heads);
  p.k_norm = b.qk_norm(p.unit, name + ".k_norm", c.kv_heads);
  if (c.attention_sinks) p.sinks = b.sinks(p.unit, name + ".attention_sinks", c.heads);
  p.projection = b.weight(p.unit, name + ".projection", ParamRole::linear,
                          {c.width, c.heads * c.head_dim}, residual_std);
  p.projection_bias = b.linear_bias(p.unit, name + ".projection", c.width);
  add_other_norms(b, c, name, p);
  if (has_experts(c, layer)) {
    add_experts(b, c, name, residual_std, p);
    return p;
  }
  p.ffn_in = b.weight(p.unit, name + ".ffn_in", ParamRole::linear, {hidden, c.width}, init_std);
  p.ffn_in_bias = b.linear_bias(p.unit, name + ".ffn_in", hidden);
  if (is_gated(c.activation))
    for (const auto param : {p.ffn_in, p.ffn_in_bias}) b.cut_gate_up(param);
  p.ffn_out =
      b.weight(p.unit, name + ".ffn_out", ParamRole::linear, {c.width, c.ffn_width}, residual_std);
  p.ffn_out_bias = b.linear_bias(p.unit, name + ".ffn_out", c.width);
  return p;
}

ModelSpec make_spec(const ModelConfig& c, const AdapterConfig& adapter) {
  require(c.vocab > 0 && c.kv_heads > 0 && c.head_dim > 0 && c.ffn_width > 0,
          "the model's vocab, kv_heads, head_dim and ffn_width must be decided before it is built");
  require(c.experts == 0 || (is_gated(c.activation) && c.expert_width > 0 &&
                             c.experts_per_token > 0 && c.experts_per_token <= c.experts),
          "experts need a gated model.activation, and "
          "model.experts_per_token between 1 and {}, not {}",
          c.experts, c.experts_per_token);
  require(!c.expert_bias || c.router == RouterScores::softmax,
          "model.expert_bias needs model.router = \"softmax\"");
  ModelSpec s;
  s.config = c;
  s.adapter = adapter;
  Builder b(s);
  s.table_unit = b.unit("embedding");
  s.table = b.weight(s.table_unit, "embedding", ParamRole::embedding, {c.vocab, c.width}, init_std);
  if (c.positions == Positions::learned) {
    s.position_unit = b.unit("positions");
    s.positions = b.weight(s.position_unit, "positions", ParamRole::positions,
                           {c.max_context, c.width}, init_std);
  }
  for (std::int64_t l = 0; l < c.layers; ++l) s.blocks.push_back(add_block(b, c, l));
  s.norm_unit = b.unit("final_norm");
  s.final_norm = b.norm(s.norm_unit, "final_norm");
  s.final_norm_bias = b.norm_bias(s.norm_unit, "final_norm");
  s.head_unit = s.table_unit;
  s.head = s.table;
  if (!c.tied) {
    s.head_unit = b.unit("head");
    s.head = b.weight(s.head_unit, "head", ParamRole::head, {c.vocab, c.width}, init_std);
  }
  if (adapter.rank > 0) add_adapters(s);
  return s;
}

bool uses_fp8(const ModelSpec& s, ParamId id, const Fp8Weights& which) {
  if (id == s.head) return which.head;
  const auto& p = s.params[id.index()];
  if (p.role != ParamRole::linear || p.shape.dims() != 2) return false;
  const auto layer = std::ranges::find(s.blocks, p.unit, &BlockParams::unit) - s.blocks.begin();
  return layer >= which.skip_first && layer < std::ssize(s.blocks) - which.skip_last;
}

ModelSpec with_fp8(ModelSpec s, const Fp8Weights& which) {
  for (std::size_t i = 0; i < s.params.size(); ++i) {
    auto& p = s.params[i];
    const bool excluded = std::ranges::any_of(
        which.except, [&](const std::string& pattern) { return matches(pattern, p.name); });
    if (!excluded && uses_fp8(s, ParamId::at(i), which)) p.products = ProductType::fp8;
  }
  return s;
}

std::vector<std::pair<std::string, Shape>> saved_params(const ModelSpec& spec) {
  std::vector<std::pair<std::string, Shape>> saved;
  for (const auto& p : spec.params)
    if (is_saved(p)) saved.emplace_back(p.name, p.shape);
  return saved;
}

// Returns a name without the numbers of the block and of the expert.
static std::string without_numbers(std::string name, bool of_expert) {
  if (name.starts_with("blocks.")) name = name.substr(name.find('.', name.find('.') + 1) + 1);
  if (of_expert) name = "experts" + name.substr(name.find('.', name.find('.') + 1));
  return name;
}

// Returns "a, b and c".
static std::string in_words(std::vector<std::string> names) {
  if (names.size() < 2) return names.empty() ? "" : names[0];
  const auto last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

std::string adapters_text(const ModelSpec& s) {
  std::vector<std::string> products, whole;
  const auto add = [](std::vector<std::string>& names, std::string name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  for (const auto& adapter : s.adapters) {
    const auto& weight = s.params[adapter.weight.index()];
    for (const auto& p : products_of(s.config, weight))
      if (std::ranges::find(adapter.products, p.channel, &AdapterParams::Product::channel) !=
          adapter.products.end())
        add(products, without_numbers(p.name, weight.expert >= 0));
  }
  for (const auto& p : s.params)
    if (!s.adapters.empty() && is_saved(p) && !is_of_adapter(p))
      add(whole, without_numbers(p.name, p.expert >= 0));
  return in_words(std::move(products)) +
         (whole.empty() ? "" : "; as a whole: " + in_words(std::move(whole)));
}

const AdapterParams* ModelSpec::adapter_of(ParamId weight) const {
  for (const auto& a : adapters)
    if (a.weight == weight) return &a;
  return nullptr;
}

std::int64_t ModelSpec::parameter_count() const {
  std::int64_t n = 0;
  for (const auto& p : params) n += p.shape.count();
  return n;
}

// All experts have the same shape, so the first experts_per_token experts represent the chosen
// ones.
std::int64_t ModelSpec::active_parameter_count() const {
  std::int64_t n = 0;
  for (const auto& p : params)
    if (p.expert < config.experts_per_token) n += p.shape.count();
  return n;
}

}  // namespace trireme
