#include "lib/train/work.hpp"

#include <algorithm>

#include "lib/pipe/partition.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns the operations per weight and token: 2 for the forward pass, 2 for the input gradient
// and, unless the weight is a base weight of adapters, 2 for the weight gradient.
static double flops_of_weight(const ParamSpec& p) {
  return p.learns_from == LearnsFrom::nothing ? 4 : 6;
}

// Returns the operations per token in the matrix products of the units that `in_unit` marks. Norms
// and biases have one dim and are excluded.
static double products_of_token(const ModelSpec& spec, const std::vector<std::uint8_t>& in_unit) {
  double all = 0;
  for (const auto& p : spec.params)
    if (in_unit[p.unit.index()] && p.shape.dims() == 2 && p.expert < spec.config.experts_per_token)
      all += flops_of_weight(p) * static_cast<double>(p.shape.count());
  return all;
}

// Returns twice the mean number of keys that a token attends to. Without a window, this equals the
// context length, because causality hides half of the keys.
static double keys_of_token(const ModelConfig& c, std::int64_t context, std::int64_t layer) {
  const AttentionShape s{.batch = 1,
                         .tokens = context,
                         .heads = c.heads,
                         .kv_heads = c.kv_heads,
                         .head_dim = c.head_dim,
                         .scale = 1,
                         .window = window_of(c, layer)};
  return 2 * pairs_seen(s) / static_cast<double>(context);
}

// Returns the costs of parts in the unit of flops_of_token(). Blocks with experts or windows cost
// the same as other blocks: the mean of all blocks.
static PartCosts part_costs(const ModelSpec& spec, std::int64_t context) {
  const auto& c = spec.config;
  std::vector<std::uint8_t> blocks(spec.units.size()), head(spec.units.size());
  for (const auto& b : spec.blocks) blocks[b.unit.index()] = 1;
  head[spec.head_unit.index()] = 1;
  const double products = products_of_token(spec, blocks) / static_cast<double>(c.layers);
  double keys = 0;
  for (std::int64_t l = 0; l < c.layers; ++l) keys += keys_of_token(c, context, l);
  keys /= static_cast<double>(c.layers);
  PartCosts costs;
  costs.block = products + 6.0 * static_cast<double>(c.heads * c.head_dim) * keys;
  costs.embedding = static_cast<double>(c.width);  // one row copied, one row added
  costs.head = products_of_token(spec, head);
  return costs;
}

double flops_of_token(const ModelSpec& spec, std::int64_t context) {
  const auto costs = part_costs(spec, context);
  return costs.head + costs.block * static_cast<double>(spec.config.layers);
}

// With recomputation or chunks of tokens, late weight gradients would keep more memory than these
// features save.
Pipeline pipeline_of(const TrainerSetup& s, int stages) {
  const bool recompute = s.recompute == Recompute::block || s.chunk_tokens > 0;
  return {s.schedule, stages, s.chunks,
          recompute ? WeightGradients::at_once : WeightGradients::late};
}

std::vector<std::int64_t> blocks_of_stages(const ModelSpec& spec, std::int64_t context,
                                           std::span<const std::int64_t> wanted,
                                           const Pipeline& p) {
  return choose_stage_layers({wanted.begin(), wanted.end()}, spec.config.layers, p,
                             part_costs(spec, context));
}

}  // namespace trireme
