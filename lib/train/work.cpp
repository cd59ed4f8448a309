#include "lib/train/work.hpp"

#include "lib/pipe/partition.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// As of flops_of_token.
static PartCosts part_costs(const ModelSpec& spec) {
  const auto& c = spec.config;
  std::int64_t weights = 0;  // of products: norms and biases have one dim
  for (const auto& p : spec.params)
    if (p.unit == spec.blocks[0].unit && p.shape.dims() == 2) weights += p.shape.count();
  PartCosts costs;
  costs.block = 6.0 * static_cast<double>(weights + c.heads * c.head_dim * c.context);
  costs.embedding = static_cast<double>(c.width);  // a row copied, another added to
  costs.head = 6.0 * static_cast<double>(c.vocab * c.width);
  return costs;
}

double flops_of_token(const ModelSpec& spec) {
  const auto costs = part_costs(spec);
  return costs.head + costs.block * static_cast<double>(spec.config.layers);
}

// What recompute would have kept until weight gradients come is more than it saves.
Pipeline pipeline_of(const TrainerSetup& s, int stages) {
  const bool recompute = s.model.recompute == Recompute::block;
  return {s.schedule, stages, s.chunks,
          recompute ? WeightGradients::at_once : WeightGradients::late};
}

std::vector<std::int64_t> blocks_of_stages(const ModelSpec& spec,
                                           std::span<const std::int64_t> wanted,
                                           const Pipeline& p) {
  return choose_stage_layers({wanted.begin(), wanted.end()}, spec.config.layers, p,
                             part_costs(spec));
}

}  // namespace trireme
