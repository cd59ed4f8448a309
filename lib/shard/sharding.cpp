#include "lib/shard/sharding.hpp"

namespace trireme {

Sharding make_sharding(const ModelSpec& spec, const ZeroPolicy& policy, const Axes& axes) {
  Sharding s{.policy = policy,
             .gather = axes.gather,
             .scatter = axes.scatter,
             .replicas = axes.replicas,
             .tied = std::nullopt,
             .stages = axes.stages};
  if (!spec.config.tied) return s;
  s.tied = spec.table_unit;
  if (axes.grid.pipe == 1) return s;
  if (axes.first_stage()) s.tied_stage = axes.grid.pipe - 1;
  if (axes.last_stage()) {
    s.tied_stage = 0;
    s.tied_use = Use::tied;
  }
  return s;
}

}  // namespace trireme
