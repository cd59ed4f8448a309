#include "lib/pipe/partition.hpp"

#include <algorithm>
#include <numeric>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

// One fixed formula, so that equal stages cost the same to the last bit.
double cost_of(std::int64_t blocks, bool first, bool last, const PartCosts& c) {
  return static_cast<double>(blocks) * c.block + ((first ? c.embedding : 0) + (last ? c.head : 0));
}

}  // namespace

// Giving each next block to the stage that costs least so far is exact for blocks that are alike:
// in the end every stage costs at least the largest minus its last block, so that this block would
// make any other stage as large. A stage with one block only has what it needs.
std::vector<std::int64_t> partition(std::int64_t layers, int stages, const PartCosts& costs) {
  expect(costs.block > 0 && costs.embedding >= 0 && costs.head >= 0, "costs are not negative");
  require(stages >= 1 && stages <= layers,
          "{} pipeline stages cannot share {} blocks; choose 1 to {} stages, each needs a block",
          stages, layers, layers);
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(stages), 1);
  for (std::int64_t left = layers - stages; left > 0; --left) {
    const auto so_far = stage_costs(blocks, costs);
    const auto least = std::min_element(so_far.rbegin(), so_far.rend());  // the latest of equals
    ++*(blocks.rbegin() + (least - so_far.rbegin()));
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
        "parallel.stage_layers has {} entries and there are parallel.pipe * parallel.chunks = {} "
        "chunks; give one each, in the order of the model",
        given, stages * chunks);
  }
  if (given != stages * chunks) {
    return fmt::format(
        "parallel.stage_layers has {} entries and parallel.pipe is {}; give one a stage", given,
        stages);
  }
  const auto empty = std::ranges::find_if(stage_layers, [](auto n) { return n < 1; });
  if (empty != stage_layers.end()) {
    return fmt::format("parallel.stage_layers gives stage {} {} blocks; a stage needs one",
                       empty - stage_layers.begin(), *empty);
  }
  const auto sum = std::accumulate(stage_layers.begin(), stage_layers.end(), std::int64_t{0});
  if (sum != layers) {
    return fmt::format("parallel.stage_layers adds up to {} blocks and model.layers is {}", sum,
                       layers);
  }
  return {};
}

std::vector<std::int64_t> choose_stage_layers(const std::vector<std::int64_t>& stage_layers,
                                              std::int64_t layers, int stages,
                                              const PartCosts& costs) {
  if (stage_layers.empty()) return partition(layers, stages, costs);
  const std::string fault = stage_layers_fault(stage_layers, layers, stages);
  require(fault.empty(), "{}", fault);
  return stage_layers;
}

}  // namespace trireme
