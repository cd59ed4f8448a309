#include "lib/model/add_adapters.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/base/pattern.hpp"

namespace trireme {

namespace {

// Returns a parameter's name without its last word, such as "blocks.0.qkv".
std::string module_of(const ParamSpec& p) {
  return p.name.substr(0, p.name.rfind('.'));
}

// Returns true for the weights that adapter.base applies to. The router and the shared expert's
// gate are excluded: they are small, and the router decides which experts run.
bool is_product(const ParamSpec& p) {
  return (p.role == ParamRole::linear || p.role == ParamRole::expert) && p.shape.dims() == 2;
}

// Adds the adapters of one model. Call add_all() once.
class AdapterBuilder {
 public:
  explicit AdapterBuilder(ModelSpec& spec)
      : spec_(spec),
        config_(spec.adapter),
        matched_(config_.patterns.size(), false),
        ranks_matched_(config_.ranks.size(), false),
        next_site_(1 + 2 * spec.config.layers) {}

  void add_all() {
    for (const auto& b : spec_.blocks) {
      for (const auto w : {b.qkv, b.projection, b.ffn_in, b.ffn_out, b.shared_in, b.shared_out})
        if (w != ParamId{}) add(w);
      for (const auto* experts : {&b.expert_in, &b.expert_out}) {
        for (const auto w : *experts) add(w);
        require_alike(*experts);
      }
    }
    add(spec_.table);
    if (!spec_.config.tied) add(spec_.head);
    require_matches();
    freeze_others();
  }

 private:
  // Adds an adapter for a weight. The initial values follow Hu et al. 2021: `a` is random and `b`
  // is 0. Adds nothing if no pattern matches one of the weight's products.
  void add(ParamId weight) {
    const ParamSpec of = spec_.params[weight.index()];
    AdapterParams adapter;
    adapter.weight = weight;
    adapter.site = next_site_++;
    std::int64_t rows = 0;
    for (const auto& p : products_of(spec_.config, of)) {
      if (!is_named(of, p)) continue;
      take_rank(adapter, p.name);
      adapter.products.push_back({p.channel, p.channels, rows});
      rows += p.channels;
    }
    if (rows == 0) return;
    const auto inputs = of.shape[1], ranks = std::ssize(adapter.products) * adapter.rank;
    // The standard deviation of peft's initial values. For products, these are uniform numbers
    // between -1 / sqrt(inputs) and 1 / sqrt(inputs).
    const double std =
        of.role == ParamRole::embedding ? 1 : 1 / std::sqrt(3.0 * static_cast<double>(inputs));
    adapter.a = add_param(of, {.name = module_of(of) + ".lora_a",
                               .role = ParamRole::adapter_a,
                               .shape = {ranks, inputs},
                               .unit = of.unit,
                               .decay = true,
                               .init_std = std,
                               .init_mean = 0});
    adapter.b = add_param(of, {.name = module_of(of) + ".lora_b",
                               .role = ParamRole::adapter_b,
                               .shape = {rows, adapter.rank},
                               .unit = of.unit,
                               .decay = true,
                               .init_std = 0,
                               .init_mean = 0,
                               .lr_factor = config_.b_lr_ratio});
    if (config_.method == AdapterMethod::dora) adapter.norms = add_norms(of, rows);
    spec_.adapters.push_back(std::move(adapter));
  }

  // A run replaces the initial values by the norms of the base model. These are the norms of random
  // base weights.
  ParamId add_norms(const ParamSpec& of, std::int64_t rows) {
    require(of.expert < 0,
            "adapter.method = \"dora\" does not support adapters of experts: use \"lora\", or "
            "remove the experts from adapter.patterns");
    require(!is_embedding_or_head(of),
            "adapter.method = \"dora\" does not support an adapter of {0}: use \"lora\", or move "
            "\"{0}\" from adapter.patterns to adapter.also_train",
            module_of(of));
    return add_param(of, {.name = module_of(of) + ".lora_norms",
                          .role = ParamRole::adapter_norms,
                          .shape = {rows},
                          .unit = of.unit,
                          .decay = false,
                          .init_std = 0,
                          .init_mean = of.init_std * std::sqrt(static_cast<double>(of.shape[1])),
                          .wide = true});
  }

  ParamId add_param(const ParamSpec& of, ParamSpec p) {
    p.expert = of.expert;
    spec_.params.push_back(std::move(p));
    return ParamId::at(spec_.params.size() - 1);
  }

  static bool is_embedding_or_head(const ParamSpec& p) {
    return p.role == ParamRole::embedding || p.role == ParamRole::head;
  }

  // A pattern matches experts, the embedding and the head only if it names them, so that "*" does
  // not give each expert an adapter, and so that it selects the same products as peft's
  // "all-linear".
  bool is_named(const ParamSpec& weight, const AdaptedProduct& p) {
    bool named = false;
    for (std::size_t i = 0; i < config_.patterns.size(); ++i) {
      const auto& pattern = config_.patterns[i];
      if (!matches(pattern, p.name)) continue;
      if (weight.expert >= 0 && pattern.find("experts.") == std::string::npos) continue;
      if (is_embedding_or_head(weight) && pattern.find(p.name) == std::string::npos) continue;
      require(!is_embedding_or_head(weight) || !spec_.config.tied,
              "adapter.patterns: \"{}\" matches {}; {}", pattern, p.name, tied);
      named = matched_[i] = true;
    }
    return named;
  }

  // Sets the rank and scale of a weight's adapter. Throws Error if another product of the weight
  // has a different rank or scale.
  void take_rank(AdapterParams& adapter, const std::string& product) {
    for (std::size_t i = 0; i < config_.ranks.size(); ++i)
      if (matches(config_.ranks[i].pattern, product)) ranks_matched_[i] = true;
    const auto s = rank_and_scale_of(config_, product);
    require(adapter.products.empty() || (adapter.rank == s.rank && adapter.scale == s.scale),
            "[[adapter_rank]]: {} has another rank or alpha than the other products of {}, which "
            "Trireme stores as one matrix: use a pattern that matches all of them",
            product, spec_.params[adapter.weight.index()].name);
    adapter.rank = s.rank;
    adapter.scale = s.scale;
  }

  // Throws Error unless the experts of the block have adapters for the same products, which are
  // computed together.
  void require_alike(std::span<const ParamId> experts) const {
    if (experts.empty()) return;
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

  void require_matches() const {
    const auto example =
        products_of(spec_.config, spec_.params[spec_.blocks.front().qkv.index()]).front().name;
    for (std::size_t i = 0; i < matched_.size(); ++i)
      require(matched_[i], "adapter.patterns: \"{}\" matches no matrix product; {}",
              config_.patterns[i], advice_for(config_.patterns[i], example));
    for (std::size_t i = 0; i < ranks_matched_.size(); ++i)
      require(ranks_matched_[i],
              "[[adapter_rank]]: \"{}\" matches no product that has an adapter; names look like "
              "\"{}\"",
              config_.ranks[i].pattern, example);
    require(!spec_.adapters.empty(),
            "adapter.rank = {}, but adapter.patterns matches no matrix product, so nothing would "
            "be trained",
            config_.rank);
  }

  static constexpr std::string_view tied =
      "the model has tied embeddings, and tied embeddings cannot have an adapter. "
      "adapter.also_train = [\"embedding\"] trains them as a whole";

  // Returns what to write instead of a pattern that matches nothing.
  std::string advice_for(const std::string& pattern, const std::string& example) const {
    if (spec_.config.tied && matches(pattern, "head")) return std::string(tied);
    for (const auto& p : spec_.params) {
      if (p.role == ParamRole::expert && p.shape.dims() == 2)
        for (const auto& product : products_of(spec_.config, p))
          if (matches(pattern, product.name))
            return fmt::format(
                "only experts have products of this name, and a pattern selects experts only if it "
                "contains \"experts.\", such as \"*.experts.*{}\"",
                product.name.substr(product.name.find('.', product.name.find("experts.") + 8)));
      if (matches(pattern, p.name) || matches(pattern, module_of(p)))
        return fmt::format("adapter.also_train = [\"{}\"] trains this parameter as a whole",
                           pattern);
    }
    return fmt::format("names look like \"{}\"", example);
  }

  // Returns a pattern for the names that end with this one, or an empty text if there are none.
  std::string ending_like(const std::string& pattern) const {
    for (const auto& p : spec_.params)
      if (!is_of_adapter(p) &&
          (matches("*." + pattern, p.name) || matches("*." + pattern, module_of(p))))
        return "*." + pattern;
    return {};
  }

  void freeze_others() {
    const auto trained = also_trained();
    for (std::size_t i = 0; i < spec_.params.size(); ++i) {
      auto& p = spec_.params[i];
      if (is_of_adapter(p) || trained[i]) continue;
      p.learns_from = LearnsFrom::nothing;
      if (is_product(p)) p.kept = config_.base;
    }
  }

  // Returns true if the weight or bias belongs to a product with an adapter, or to an expert in a
  // block whose experts have adapters.
  bool has_adapter(const ParamSpec& p) const {
    return std::ranges::any_of(spec_.adapters, [&](const AdapterParams& a) {
      const auto& weight = spec_.params[a.weight.index()];
      return weight.name == module_of(p) + ".weight" ||
             (p.expert >= 0 && weight.expert >= 0 && weight.unit == p.unit);
    });
  }

  // Returns which parameters adapter.also_train names, by ParamId.
  std::vector<bool> also_trained() const {
    std::vector<bool> trained(spec_.params.size(), false);
    for (const auto& pattern : config_.also_train) {
      bool any = false;
      for (std::size_t i = 0; i < spec_.params.size(); ++i) {
        const auto& p = spec_.params[i];
        if (is_of_adapter(p) || !(matches(pattern, p.name) || matches(pattern, module_of(p))))
          continue;
        require(
            !has_adapter(p),
            "adapter.also_train: \"{}\" matches {}, but its product or another expert of its block "
            "has an adapter: remove it from adapter.also_train or from adapter.patterns",
            pattern, p.name);
        require(p.learns_from == LearnsFrom::gradients,
                "adapter.also_train: \"{}\" matches {}, which load balancing changes", pattern,
                p.name);
        any = trained[i] = true;
      }
      require(any || !spec_.config.tied || !matches(pattern, "head"),
              "adapter.also_train: \"{}\" matches no parameter, because the model has tied "
              "embeddings: name \"embedding\", which is also the head",
              pattern);
      const auto longer = any ? std::string() : ending_like(pattern);
      require(any, "adapter.also_train: \"{}\" matches no parameter of the base model; {}", pattern,
              !longer.empty() ? fmt::format("\"{}\" does", longer)
                              : fmt::format("names look like \"{}\" or \"blocks.*.attention_norm\"",
                                            spec_.config.tied ? "embedding" : "head"));
    }
    return trained;
  }

  ModelSpec& spec_;
  const AdapterConfig& config_;
  std::vector<bool> matched_;        // by adapter pattern
  std::vector<bool> ranks_matched_;  // by AdapterConfig::ranks
  std::int64_t next_site_;           // of dropout, after the sites of the blocks
};

}  // namespace

void add_adapters(ModelSpec& spec) {
  AdapterBuilder(spec).add_all();
}

}  // namespace trireme
