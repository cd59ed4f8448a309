#include "lib/model/product.hpp"

#include <utility>

#include "lib/ops/adapted_linear.hpp"

namespace trireme {

ops::Linear make_linear(const ModelSpec& s, ParamId weight, ParamId bias) {
  const auto& p = s.params[weight.index()];
  return {weight, bias, p.shape[0], p.products};
}

std::optional<ops::LowRank> low_rank_of(const ModelSpec& s, ParamId weight) {
  const auto* adapter = s.adapter_of(weight);
  if (!adapter) return {};
  ops::LowRank low{.a = adapter->a,
                   .b = adapter->b,
                   .norms = adapter->norms,
                   .rank = adapter->rank,
                   .scale = adapter->scale,
                   .products = {},
                   .dropout = {adapter->site, s.adapter.dropout}};
  for (const auto& p : adapter->products) low.products.push_back({p.channel, p.channels, p.row});
  return low;
}

std::unique_ptr<Op> make_product(const ModelSpec& s, ParamId weight, ParamId bias) {
  auto low = low_rank_of(s, weight);
  if (!low) return std::make_unique<ops::Linear>(make_linear(s, weight, bias));
  if (low->norms == ParamId{})
    return std::make_unique<ops::AdaptedLinear>(make_linear(s, weight, bias), std::move(*low),
                                                std::nullopt);
  ops::TrainedNorms norms(weight, bias, *low);
  return std::make_unique<ops::AdaptedLinear>(make_linear(s, weight, {}), std::move(*low),
                                              std::move(norms));
}

}  // namespace trireme
