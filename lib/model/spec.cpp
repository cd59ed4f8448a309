#include "lib/model/spec.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/base/pattern.hpp"

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

// Returns true for the weights that adapter.base applies to. The router and the shared expert's
// gate are excluded: they are small, and the router decides which experts run.
static bool is_product(const ParamSpec& p) {
  return (p.role == ParamRole::linear || p.role == ParamRole::expert) && p.shape.dims() == 2;
}

namespace {

class Builder {
 public:
  explicit Builder(ModelSpec& spec)
      : spec_(spec),
        matched_(spec.adapter.patterns.size(), false),
        ranks_matched_(spec.adapter.ranks.size(), false),
        next_site_(1 + 2 * spec.config.layers) {}

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
  // Adds an adapter for a weight. The initial values follow Hu et al. 2021: `a` is random and `b`
  // is 0. Adds nothing if no pattern matches one of the weight's products. A pattern matches
  // experts only if it names them, so that "*" does not give each expert an adapter.
  void adapter(ParamId weight) {
    const auto& c = spec_.config;
    if (spec_.adapter.rank == 0 || weight == ParamId{}) return;
    const ParamSpec of = spec_.params[weight.index()];
    const auto name = of.name.substr(0, of.name.rfind(".weight"));
    AdapterParams adapter;
    adapter.weight = weight;
    adapter.site = next_site_++;
    std::int64_t rows = 0;
    for (const auto& p : products_of(c, of)) {
      bool named = false;
      for (std::size_t i = 0; i < spec_.adapter.patterns.size(); ++i)
        if (names(spec_.adapter.patterns[i], of, p)) named = matched_[i] = true;
      if (!named) continue;
      take_strength(adapter, p.name);
      adapter.products.push_back({p.channel, p.channels, rows});
      rows += p.channels;
    }
    if (rows == 0) return;
    const auto inputs = of.shape[1], ranks = std::ssize(adapter.products) * adapter.rank;
    // The standard deviation of uniform numbers between -1 / sqrt(inputs) and 1 / sqrt(inputs),
    // which peft draws.
    const double std = 1 / std::sqrt(3.0 * static_cast<double>(inputs));
    adapter.a =
        add({name + ".lora_a", ParamRole::adapter_a, {ranks, inputs}, of.unit, true, std, 0});
    adapter.b =
        add({name + ".lora_b", ParamRole::adapter_b, {rows, adapter.rank}, of.unit, true, 0, 0});
    spec_.params[adapter.b.index()].lr_factor = spec_.adapter.b_lr_ratio;
    for (const auto id : {adapter.a, adapter.b}) of_expert(of.expert, id);
    if (spec_.adapter.method == AdapterMethod::dora) {
      require(of.expert < 0,
              "adapter.method = \"dora\" does not support adapters of experts: use \"lora\", or "
              "remove the experts from adapter.patterns");
      // A run replaces the initial values by the norms of the base model.
      adapter.norms = add({.name = name + ".lora_norms",
                           .role = ParamRole::adapter_norms,
                           .shape = {rows},
                           .unit = of.unit,
                           .decay = false,
                           .init_std = 0,
                           .init_mean = 1,
                           .wide = true});
    }
    spec_.adapters.push_back(std::move(adapter));
  }
  // Throws Error unless the experts of the block have adapters for the same products, which are
  // computed together.
  void require_alike(std::span<const ParamId> experts) const {
    const auto* const first = spec_.adapter_of(experts[0]);
    for (const auto weight : experts) {
      const auto* const other = spec_.adapter_of(weight);
      require(!first == !other &&
                  (!first || (first->products == other->products && first->rank == other->rank &&
                              first->scale == other->scale)),
              "adapter.patterns and [[adapter_rank]]: all experts of a block need adapters for the "
              "same products, with the same rank and alpha. Name them with *, such as "
              "\"blocks.*.experts.*.ffn_in.gate\"");
    }
  }
  // Freezes all parameters except adapters. Throws Error, naming the pattern, if a pattern matched
  // nothing.
  void finish_adapters() {
    const auto& c = spec_.config;
    if (spec_.adapter.rank == 0) return;
    for (std::size_t i = 0; i < matched_.size(); ++i)
      require(matched_[i],
              "adapter.patterns: \"{}\" matches no matrix product; names look like \"{}\"",
              spec_.adapter.patterns[i],
              products_of(c, spec_.params[spec_.blocks.front().qkv.index()]).front().name);
    for (std::size_t i = 0; i < ranks_matched_.size(); ++i)
      require(ranks_matched_[i],
              "[[adapter_rank]]: \"{}\" matches no product that has an adapter; names look like "
              "\"{}\"",
              spec_.adapter.ranks[i].pattern,
              products_of(c, spec_.params[spec_.blocks.front().qkv.index()]).front().name);
    require(!spec_.adapters.empty(),
            "adapter.rank = {}, but adapter.patterns matches no matrix product, so nothing would "
            "be trained",
            spec_.adapter.rank);
    const auto trained = also_trained();
    for (std::size_t i = 0; i < spec_.params.size(); ++i) {
      auto& p = spec_.params[i];
      if (is_of_adapter(p) || trained[i]) continue;
      p.learns_from = LearnsFrom::nothing;
      if (is_product(p)) p.kept = spec_.adapter.base;
    }
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
  // Sets the rank and scale of a weight's adapter. Throws Error if another of its products has
  // other ones.
  void take_strength(AdapterParams& adapter, const std::string& product) {
    for (std::size_t i = 0; i < spec_.adapter.ranks.size(); ++i)
      if (matches(spec_.adapter.ranks[i].pattern, product)) ranks_matched_[i] = true;
    const auto s = strength_of(spec_.adapter, product);
    require(adapter.products.empty() || (adapter.rank == s.rank && adapter.scale == s.scale),
            "[[adapter_rank]]: {} has another rank or alpha than the other products of {}, which "
            "Trireme stores as one matrix: use a pattern that matches all of them",
            product, spec_.params[adapter.weight.index()].name);
    adapter.rank = s.rank;
    adapter.scale = s.scale;
  }
  // Returns true if the weight or bias belongs to a product with an adapter, or to an expert in a
  // block whose experts have adapters.
  bool beside_adapter(const ParamSpec& p) const {
    const auto module = p.name.substr(0, p.name.rfind('.'));
    return std::ranges::any_of(spec_.adapters, [&](const AdapterParams& a) {
      const auto& weight = spec_.params[a.weight.index()];
      return weight.name == module + ".weight" ||
             (p.expert >= 0 && weight.expert >= 0 && weight.unit == p.unit);
    });
  }
  // Returns which parameters adapter.also_train names, by ParamId. Throws Error, naming the
  // pattern, if a pattern matches nothing or a parameter that cannot be trained beside adapters.
  std::vector<bool> also_trained() const {
    std::vector<bool> trained(spec_.params.size(), false);
    for (const auto& pattern : spec_.adapter.also_train) {
      bool any = false;
      for (std::size_t i = 0; i < spec_.params.size(); ++i) {
        const auto& p = spec_.params[i];
        const auto module = p.name.substr(0, p.name.rfind('.'));
        if (is_of_adapter(p) || !(matches(pattern, p.name) || matches(pattern, module))) continue;
        require(!beside_adapter(p),
                "adapter.also_train: \"{}\" matches {}, but the product has an adapter: remove it "
                "from adapter.also_train or from adapter.patterns",
                pattern, p.name);
        require(p.learns_from == LearnsFrom::gradients,
                "adapter.also_train: \"{}\" matches {}, which load balancing changes", pattern,
                p.name);
        any = trained[i] = true;
      }
      require(any,
              "adapter.also_train: \"{}\" matches no parameter of the base model; names look like "
              "\"{}\" or \"blocks.*.attention_norm\"",
              pattern, spec_.config.tied ? "embedding" : "head");
    }
    return trained;
  }
  static bool names(const std::string& pattern, const ParamSpec& weight, const AdaptedProduct& p) {
    return matches(pattern, p.name) &&
           (weight.expert < 0 || pattern.find("experts.") != std::string::npos);
  }
  ParamId add(ParamSpec p) {
    spec_.params.push_back(std::move(p));
    return ParamId::at(spec_.params.size() - 1);
  }
  ModelSpec& spec_;
  std::vector<bool> matched_;        // by adapter pattern
  std::vector<bool> ranks_matched_;  // by AdapterConfig::ranks
  std::int64_t next_site_;           // of dropout, after the sites of the blocks
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
    for (const auto w : {p.qkv, p.projection, p.shared_in, p.shared_out}) b.adapter(w);
    for (const auto* experts : {&p.expert_in, &p.expert_out}) {
      for (const auto w : *experts) b.adapter(w);
      b.require_alike(*experts);
    }
    return p;
  }
  p.ffn_in = b.weight(p.unit, name + ".ffn_in", ParamRole::linear, {hidden, c.width}, init_std);
  p.ffn_in_bias = b.linear_bias(p.unit, name + ".ffn_in", hidden);
  if (is_gated(c.activation))
    for (const auto param : {p.ffn_in, p.ffn_in_bias}) b.cut_gate_up(param);
  p.ffn_out =
      b.weight(p.unit, name + ".ffn_out", ParamRole::linear, {c.width, c.ffn_width}, residual_std);
  p.ffn_out_bias = b.linear_bias(p.unit, name + ".ffn_out", c.width);
  for (const auto w : {p.qkv, p.projection, p.ffn_in, p.ffn_out}) b.adapter(w);
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
  b.finish_adapters();
  return s;
}

bool supports_fp8(const ParamSpec& p) {
  return p.role == ParamRole::linear && p.shape.dims() == 2;
}

ModelSpec with_fp8(ModelSpec s, std::span<const std::string> except) {
  for (auto& p : s.params) {
    const bool excluded = std::ranges::any_of(
        except, [&](const std::string& pattern) { return matches(pattern, p.name); });
    if (!excluded && supports_fp8(p)) p.products = ProductType::fp8;
  }
  return s;
}

std::vector<std::pair<std::string, Shape>> saved_params(const ModelSpec& spec) {
  std::vector<std::pair<std::string, Shape>> saved;
  for (const auto& p : spec.params)
    if (is_saved(p)) saved.emplace_back(p.name, p.shape);
  return saved;
}

std::string adapted_products_text(const ModelSpec& s) {
  std::vector<std::string> names;
  for (const auto& adapter : s.adapters) {
    const auto& weight = s.params[adapter.weight.index()];
    for (const auto& p : products_of(s.config, weight)) {
      if (std::ranges::find(adapter.products, p.channel, &AdapterParams::Product::channel) ==
          adapter.products.end())
        continue;
      auto name = p.name.substr(p.name.find('.', p.name.find('.') + 1) + 1);  // without blocks.N.
      if (weight.expert >= 0)
        name = "experts" + name.substr(name.find('.', name.find('.') + 1));  // without its number
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  if (names.size() < 2) return names.empty() ? "" : names[0];
  const auto last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
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
