#pragma once
// Writes checkpoints that contain weights but no optimizer state, such as those of imported models.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/base/view.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// Returns the metadata for a checkpoint that begins a new run with the model, tokenizer and deck of
// this one: step 0, a new run id, and no tables.
CheckpointMeta without_run(CheckpointMeta);

// Function that fills `to` with elements of a parameter, flat in row-major order, from number
// `first` on.
using WeightSource =
    std::function<void(const std::string& param, std::int64_t first, std::span<std::byte> to)>;

// Writes the parameters, whose elements have the type `type`, as a checkpoint. Sets all counts in
// meta.updates to 0. Memory does not depend on the size of the model. Throws Error if `target`
// exists or cannot be written. If the function or `source` throws, nothing remains at `target`.
void save_weights(const std::filesystem::path& target, CheckpointMeta meta,
                  std::span<const std::pair<std::string, Shape>> params, DType type,
                  const WeightSource& source);

}  // namespace trireme
