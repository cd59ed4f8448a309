#include "lib/pipe/partition.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

// Returns the cost of a stage or chunk. A single formula ensures that equal stages have exactly
// equal costs.
double cost_of(std::int64_t blocks, bool first, bool last, const PartCosts& c) {
  return static_cast<double>(blocks) * c.block + ((first ? c.embedding : 0) + (last ? c.head : 0));
}

}  // namespace

// Gives each next block to the stage with the lowest cost so far. The result is optimal for equal
// blocks. In the end, every stage costs at least as much as the largest stage without its last
// block, so moving that block would make another stage at least as large. A stage with only one
// block per chunk cannot be reduced, because each chunk needs a block.
std::vector<std::int64_t> partition(std::int64_t layers, const Pipeline& p,
                                    const PartCosts& costs) {
  expect(costs.block > 0 && costs.embedding >= 0 && costs.head >= 0, "costs are not negative");
  const int all = p.virtual_stages();
  require(
      all >= 1 && all <= layers,
      "{} stages{} cannot share {} blocks, because each needs at least one: lower parallel.pipe{}",
      p.stages, p.chunks > 1 ? fmt::format(" of {} chunks", p.chunks) : "", layers,
      p.chunks > 1 ? " or parallel.chunks" : "");
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(all), 1);
  for (std::int64_t left = layers - all; left > 0; --left) {
    const auto of_chunks = stage_costs(blocks, costs);
    std::vector<double> of_stages(static_cast<std::size_t>(p.stages), 0);
    for (int v = 0; v < all; ++v)
      of_stages[static_cast<std::size_t>(p.stage_of(v))] += of_chunks[static_cast<std::size_t>(v)];
    int next = 0;  // the last of several equal candidates
    for (int v = 1; v < all; ++v) {
      const auto so_far = [&](int of) {
        return std::pair(of_stages[static_cast<std::size_t>(p.stage_of(of))],
                         of_chunks[static_cast<std::size_t>(of)]);
      };
      if (so_far(v) <= so_far(next)) next = v;
    }
    ++blocks[static_cast<std::size_t>(next)];
  }
  return blocks;
}

std::vector<double> stage_costs(const std::vector<std::int64_t>& stage_layers,
                                const PartCosts& costs) {
  std::vector<double> all;
  for (std::size_t s = 0; s < stage_layers.size(); ++s) {
    all.push_back(cost_of(stage_layers[s], s == 0, s + 1 == stage_layers.size(), costs));
  }
  return all;
}

std::string stage_layers_fault(const std::vector<std::int64_t>& stage_layers, std::int64_t layers,
                               std::int64_t stages, std::int64_t chunks) {
  const auto given = static_cast<std::int64_t>(stage_layers.size());
  if (given != stages * chunks && chunks > 1) {
    return fmt::format(
        "parallel.stage_layers has {} entries, but there are parallel.pipe * parallel.chunks = {} "
        "chunks; give one entry per chunk, in the order of the model",
        given, stages * chunks);
  }
  if (given != stages * chunks) {
    return fmt::format(
        "parallel.stage_layers has {} entries, but parallel.pipe is {}; give one entry per stage",
        given, stages);
  }
  const auto empty = std::ranges::find_if(stage_layers, [](auto n) { return n < 1; });
  if (empty != stage_layers.end()) {
    return fmt::format("parallel.stage_layers gives {} {} {} blocks; each needs at least one",
                       chunks > 1 ? "chunk" : "stage", empty - stage_layers.begin(), *empty);
  }
  const auto sum = std::accumulate(stage_layers.begin(), stage_layers.end(), std::int64_t{0});
  if (sum != layers) {
    return fmt::format("parallel.stage_layers adds up to {} blocks, but model.layers is {}", sum,
                       layers);
  }
  return {};
}

std::vector<std::int64_t> choose_stage_layers(const std::vector<std::int64_t>& stage_layers,
                                              std::int64_t layers, const Pipeline& p,
                                              const PartCosts& costs) {
  if (stage_layers.empty()) return partition(layers, p, costs);
  const std::string fault = stage_layers_fault(stage_layers, layers, p.stages, p.chunks);
  require(fault.empty(), "{}", fault);
  return stage_layers;
}

}  // namespace trireme
