#include "lib/model/adapter.hpp"

#include <cmath>

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

double scale_of(const AdapterConfig& a) {
  const auto rank = static_cast<double>(a.rank);
  return alpha_of(a) / (a.rank_stabilized ? std::sqrt(rank) : rank);
}

}  // namespace trireme
