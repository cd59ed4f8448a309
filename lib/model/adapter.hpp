#pragma once
// Settings of low-rank adapters (LoRA: Hu et al. 2021): the deck section [adapter]. The base weight
// w_NC is frozen, and the matrices a_RC and b_NR are trained. A product with the weight becomes x
// (w + s b a)'. With DoRA (Liu et al. 2024), row n of w + s b a is also scaled to the trained norm
// m_N.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

// Storage type of frozen weights: the compute type, or a smaller type from which weights are
// converted for each use.
enum class BaseType : std::uint8_t { compute, bf16, nf4 };
template <>
inline constexpr auto value_names<BaseType> = named<BaseType>("compute", "bf16", "nf4");

// The function that adapters compute.
enum class AdapterMethod : std::uint8_t { lora, dora };
template <>
inline constexpr auto value_names<AdapterMethod> = named<AdapterMethod>("lora", "dora");

// The rank and alpha of the products whose names match `pattern`: one [[adapter_rank]] section.
struct AdapterRank {
  std::string pattern;
  std::int64_t rank = 0;
  double alpha = 0;  // 0 means AdapterConfig::alpha or, if that is 0, twice the rank
  bool operator==(const AdapterRank&) const = default;
};

// Settings of the adapters of a model.
struct AdapterConfig {
  std::int64_t rank = 0;  // R; 0 means no adapters, so the whole model trains
  AdapterMethod method = AdapterMethod::lora;
  // The scale is s = alpha / R, or alpha / sqrt(R) if rank_stabilized is set (rsLoRA: Kalajdzievski
  // 2023). An alpha of 0 means twice the rank.
  double alpha = 0;
  bool rank_stabilized = false;
  double dropout = 0;                         // dropout probability for the input of `a`
  BaseType base = BaseType::compute;          // storage type of the frozen weights
  std::vector<std::string> patterns = {"*"};  // names of products that get an adapter
  std::vector<AdapterRank> ranks = {};        // for some products, instead of `rank` and `alpha`
  // Names of the base model's parameters that are trained, too. The names may omit the last word.
  std::vector<std::string> also_train = {};
  // Learning rate of `b` divided by that of all other parameters (LoRA+: Hayou et al. 2024).
  double b_lr_ratio = 1;

  bool operator==(const AdapterConfig&) const = default;
};

// Returns settings that are equal for adapters that compute the same function. Settings that do not
// affect the function get their defaults. `patterns` and `also_train` also get their defaults,
// because the parameters show which products have adapters and what else is trained. The rules in
// `ranks` keep their patterns, so rules that select the same products by other patterns differ.
AdapterConfig canonical(AdapterConfig);

// The rank, alpha and scale of the adapter of one product.
struct RankAndScale {
  std::int64_t rank = 0;
  double alpha = 0;
  double scale = 0;  // s, by which the adapter's contribution is multiplied
  bool operator==(const RankAndScale&) const = default;
};
// Returns the rank, alpha and scale of a product's adapter. The last of `ranks` that matches the
// product's name applies.
RankAndScale rank_and_scale_of(const AdapterConfig&, std::string_view product);
// Returns alpha, or twice the rank if alpha is 0.
double alpha_of(const AdapterConfig&);

}  // namespace trireme
