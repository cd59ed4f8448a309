#include "lib/model/adapter.hpp"

#include <cmath>

#include "lib/base/pattern.hpp"

namespace trireme {

static double given_or_automatic(double alpha, std::int64_t rank) {
  return alpha > 0 ? alpha : 2 * static_cast<double>(rank);
}

AdapterConfig canonical(AdapterConfig a) {
  const AdapterConfig plain;
  if (a.rank == 0) return plain;
  for (auto& r : a.ranks)
    if (r.alpha == 0) r.alpha = given_or_automatic(a.alpha, r.rank);
  a.alpha = alpha_of(a);
  a.dropout = plain.dropout;
  a.patterns = plain.patterns;
  a.also_train = plain.also_train;
  a.b_lr_ratio = plain.b_lr_ratio;
  return a;
}

double alpha_of(const AdapterConfig& a) {
  return given_or_automatic(a.alpha, a.rank);
}

RankAndScale rank_and_scale_of(const AdapterConfig& a, std::string_view product) {
  RankAndScale s{a.rank, alpha_of(a)};
  for (const auto& r : a.ranks) {
    if (!matches(r.pattern, product)) continue;
    s = {r.rank, r.alpha > 0 ? r.alpha : given_or_automatic(a.alpha, r.rank)};
  }
  const auto rank = static_cast<double>(s.rank);
  s.scale = s.alpha / (a.rank_stabilized ? std::sqrt(rank) : rank);
  return s;
}

}  // namespace trireme
