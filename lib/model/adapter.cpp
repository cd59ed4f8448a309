#include "lib/model/adapter.hpp"

#include <cmath>

#include "lib/base/pattern.hpp"

namespace trireme {

AdapterConfig canonical(AdapterConfig a) {
  const AdapterConfig plain;
  if (a.rank == 0) return plain;
  a.alpha = alpha_of(a);
  a.dropout = plain.dropout;
  a.patterns = plain.patterns;
  a.also_train = plain.also_train;
  a.b_lr_ratio = plain.b_lr_ratio;
  return a;
}

double alpha_of(const AdapterConfig& a) {
  return a.alpha > 0 ? a.alpha : 2 * static_cast<double>(a.rank);
}

AdapterStrength strength_of(const AdapterConfig& a, std::string_view product) {
  AdapterStrength s{a.rank, alpha_of(a)};
  for (const auto& r : a.ranks) {
    if (!matches(r.pattern, product)) continue;
    const double automatic = a.alpha > 0 ? a.alpha : 2 * static_cast<double>(r.rank);
    s = {r.rank, r.alpha > 0 ? r.alpha : automatic};
  }
  const auto rank = static_cast<double>(s.rank);
  s.scale = s.alpha / (a.rank_stabilized ? std::sqrt(rank) : rank);
  return s;
}

}  // namespace trireme
