#include "lib/model/adapter.hpp"

#include <cmath>

#include "lib/model/config.hpp"

namespace trireme {

AdapterConfig canonical(AdapterConfig a) {
  const AdapterConfig plain;
  if (a.rank == 0) return plain;
  a.alpha = alpha_of(a);
  a.dropout = plain.dropout;
  a.patterns = plain.patterns;
  return a;
}

double alpha_of(const AdapterConfig& a) {
  return a.alpha > 0 ? a.alpha : 2 * static_cast<double>(a.rank);
}

double scale_of(const AdapterConfig& a) {
  const auto rank = static_cast<double>(a.rank);
  return alpha_of(a) / (a.rank_stabilized ? std::sqrt(rank) : rank);
}

std::vector<AdaptedProduct> products_of(const ModelConfig& c, const std::string& weight,
                                        std::int64_t outputs) {
  // GPT-2 and models built like it store these matrices as one. Other models store several.
  if (c.positions == Positions::rotary && weight.ends_with(".qkv")) {
    const auto q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    return {{weight + ".q", 0, q}, {weight + ".k", q, kv}, {weight + ".v", q + kv, kv}};
  }
  if (is_gated(c.activation) && weight.ends_with(".ffn_in"))
    return {{weight + ".gate", 0, outputs / 2}, {weight + ".up", outputs / 2, outputs / 2}};
  return {{weight, 0, outputs}};
}

}  // namespace trireme
