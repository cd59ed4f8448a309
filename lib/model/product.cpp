#include "lib/model/product.hpp"

#include <utility>

#include "lib/ops/adapted_linear.hpp"

namespace trireme {

ops::Linear make_linear(const ModelSpec& s, ParamId weight, ParamId bias) {
  const auto& p = s.params[weight.index()];
  return {weight, bias, p.shape[0], p.products};
}

std::unique_ptr<Op> make_product(const ModelSpec& s, ParamId weight, ParamId bias) {
  auto linear = make_linear(s, weight, bias);
  const auto* adapter = s.adapter_of(weight);
  if (!adapter) return std::make_unique<ops::Linear>(std::move(linear));
  const auto& config = s.adapter;
  ops::LowRank low{.a = adapter->a,
                   .b = adapter->b,
                   .rank = adapter->rank,
                   .scale = scale_of(config),
                   .products = {},
                   .dropout = {adapter->site, config.dropout}};
  for (const auto& p : adapter->products) low.products.push_back({p.channel, p.channels, p.row});
  return std::make_unique<ops::AdaptedLinear>(std::move(linear), std::move(low));
}

}  // namespace trireme
