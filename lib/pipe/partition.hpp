#pragma once
// Which transformer blocks each stage runs, as a number for each stage: blocks count as alike. The
// first stage also embeds tokens, the last one also runs the head. With chunks, stages are virtual
// ones (lib/pipe/schedule.hpp). Pure.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// In seconds, FLOPs or any other additive unit; forward and backward together.
struct PartCosts {
  double block = 1, embedding = 0, head = 0;
};

// Blocks of each virtual stage, at least one: minimises the cost of the largest stage with all its
// chunks, then of the next largest, and so on; a stage's go to its cheapest chunks. Among equals
// the later get more, as they hold fewer inputs. Throws Error when there are more of them than
// layers.
std::vector<std::int64_t> partition(std::int64_t layers, const Pipeline&, const PartCosts&);

// Cost of each virtual stage under that partition.
std::vector<double> stage_costs(const std::vector<std::int64_t>& stage_layers, const PartCosts&);

// The deck's parallel.stage_layers: why it does not give `layers` blocks to `stages` stages of
// `chunks` each, or empty.
std::string stage_layers_fault(const std::vector<std::int64_t>& stage_layers, std::int64_t layers,
                               std::int64_t stages, std::int64_t chunks = 1);

// stage_layers where the deck gives them (throws Error where they are wrong), else partition().
std::vector<std::int64_t> choose_stage_layers(const std::vector<std::int64_t>& stage_layers,
                                              std::int64_t layers, const Pipeline&,
                                              const PartCosts&);

}  // namespace trireme
