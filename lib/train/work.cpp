#include "lib/train/work.hpp"

#include <algorithm>

#include "lib/pipe/partition.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Weights of a block's products that a token is multiplied with: norms and biases have one dim.
static std::int64_t weights_of_token(const ModelSpec& spec, const BlockParams& block) {
  const auto& c = spec.config;
  std::int64_t all = 0;
  for (const auto& p : spec.params)
    if (p.unit == block.unit && p.shape.dims() == 2) all += p.shape.count();
  if (block.expert_in.empty()) return all;
  return all - (c.experts - c.experts_per_token) * 3 * c.width * c.expert_width;
}

// As of flops_of_token. Blocks with experts and without count as alike, by their mean.
static PartCosts part_costs(const ModelSpec& spec) {
  const auto& c = spec.config;
  const auto dense =
      std::ranges::find_if(spec.blocks, &std::vector<ParamId>::empty, &BlockParams::expert_in);
  const auto mixed =
      std::ranges::find_if_not(spec.blocks, &std::vector<ParamId>::empty, &BlockParams::expert_in);
  const auto all = static_cast<double>(c.layers),
             some = static_cast<double>(std::ranges::count_if(
                 spec.blocks, &std::vector<ParamId>::empty, &BlockParams::expert_in));
  double weights = 0;
  if (dense != spec.blocks.end())
    weights += some / all * static_cast<double>(weights_of_token(spec, *dense));
  if (mixed != spec.blocks.end())
    weights += (all - some) / all * static_cast<double>(weights_of_token(spec, *mixed));
  PartCosts costs;
  costs.block = 6.0 * (weights + static_cast<double>(c.heads * c.head_dim * c.context));
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
