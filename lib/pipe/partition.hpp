#pragma once
// Distribution of the transformer blocks over pipeline stages, as the number of blocks of each
// virtual stage (lib/pipe/pipeline.hpp). All blocks are assumed to cost the same. The first stage
// also runs the embedding, and the last one the head. The functions are pure.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// Costs of a forward and backward pass through one block, the embedding and the head, in seconds,
// FLOPs or any other additive unit.
struct PartCosts {
  double block = 1, embedding = 0, head = 0;
};

// Returns the number of blocks of each virtual stage, which is at least one. The partition
// minimizes the cost of the most expensive stage with all its chunks, then the cost of the next
// most expensive stage, and so on. Within a stage, blocks are added to the cheapest chunk. In a
// tie, later stages get more blocks, because they store fewer inputs. Throws Error if there are
// more virtual stages than layers.
std::vector<std::int64_t> partition(std::int64_t layers, const Pipeline&, const PartCosts&);

// Returns the cost of each virtual stage. `stage_layers` is the number of blocks of each virtual
// stage.
std::vector<double> stage_costs(const std::vector<std::int64_t>& stage_layers, const PartCosts&);

// Returns an error message if `stage_layers` does not distribute `layers` blocks over `stages`
// stages with `chunks` chunks each. `stage_layers` is the deck's parallel.stage_layers. Returns an
// empty string if there is no error.
std::string stage_layers_fault(const std::vector<std::int64_t>& stage_layers, std::int64_t layers,
                               std::int64_t stages, std::int64_t chunks = 1);

// Returns `stage_layers` if the deck sets it, otherwise the result of partition(). Throws Error if
// `stage_layers` is invalid.
std::vector<std::int64_t> choose_stage_layers(const std::vector<std::int64_t>& stage_layers,
                                              std::int64_t layers, const Pipeline&,
                                              const PartCosts&);

}  // namespace trireme
