#pragma once
// Averages the weights of checkpoints.
#include <filesystem>
#include <memory>
#include <span>

#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// A checkpoint, and its share of the mean.
struct WeightedCheckpoint {
  std::unique_ptr<CheckpointReader> reader;
  double share = 0;
};

// Writes a checkpoint without optimizer state. Each weight is the sum of share * weight over the
// checkpoints. The shares must add up to 1. Sums are computed in f64, in the order of the
// checkpoints, and are rounded once to the type of the weights. Weights are read in parts, so the
// memory used does not depend on the size of the model. All checkpoints must have the same
// parameters of the same type. Throws Error if `target` exists, if a file is damaged, or if a mean
// is not finite. In these cases, nothing is written.
void save_mean(const std::filesystem::path& target, CheckpointMeta,
               std::span<const WeightedCheckpoint>);

}  // namespace trireme
