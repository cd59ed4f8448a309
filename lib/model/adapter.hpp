#pragma once
// Low-rank adapters (LoRA: Hu et al. 2021): beside a frozen weight w_NC stand a_RC and b_NR, and a
// product with it becomes x (w + s b a)'. [adapter] of a deck.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

struct ModelConfig;

// How the weights of a frozen model's products are kept: in the compute type, or in less, from
// which they are widened for each use.
enum class BaseType : std::uint8_t { compute, bf16, nf4 };
template <>
inline constexpr auto value_names<BaseType> = named<BaseType>("compute", "bf16", "nf4");

struct AdapterConfig {
  std::int64_t rank = 0;                      // R; 0: there are none, and the whole model trains
  double alpha = 0;                           // s = alpha / R, ...; 0: twice the rank
  bool rank_stabilized = false;               // ... or alpha / sqrt(R) (rsLoRA: Kalajdzievski 2023)
  double dropout = 0;                         // probability, of what goes through a
  BaseType base = BaseType::compute;          // what they stand beside
  std::vector<std::string> patterns = {"*"};  // names of products (below) that get one

  bool operator==(const AdapterConfig&) const = default;
};

// The same adapters where other keys are given: what changes no value is at its default, and so are
// patterns, since the parameters show which products there are.
AdapterConfig canonical(AdapterConfig);

// Of alpha that is decided, and s.
double alpha_of(const AdapterConfig&);
double scale_of(const AdapterConfig&);

// A product with channels [channel, channel + channels) of a weight's outputs: of "qkv" of rotary
// models the queries, keys and values, of "ffn_in" of a gated MLP gate and up; of others the whole.
struct AdaptedProduct {
  std::string name;  // "blocks.3.qkv.q"
  std::int64_t channel = 0, channels = 0;
};

// The products of a block's weight "blocks.3.qkv" with so many outputs, adapted or not.
std::vector<AdaptedProduct> products_of(const ModelConfig&, const std::string& weight,
                                        std::int64_t outputs);

}  // namespace trireme
