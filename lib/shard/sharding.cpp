#include "lib/shard/sharding.hpp"

namespace trireme {

Sharding make_sharding(const ModelSpec& spec, const ZeroPolicy& policy, const Axes& axes,
                       int last_stage) {
  Sharding s{.policy = policy,
             .stage = {axes.gather, axes.scatter, axes.replicas},
             .experts = {axes.expert_gather, axes.expert_scatter, axes.expert_replicas},
             .tied = std::nullopt,
             .stages = axes.stages};
  if (!spec.config.tied) return s;
  s.tied = spec.table_unit;
  if (last_stage == 0) return s;
  if (axes.at.pipe == 0) s.tied_stage = last_stage;
  if (axes.at.pipe == last_stage) {
    s.tied_stage = 0;
    s.tied_use = Use::tied;
  }
  return s;
}

}  // namespace trireme
