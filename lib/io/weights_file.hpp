#pragma once
// A plain HDF5 file of weights: the group `weights` with a dataset for each parameter in its shape,
// settings as attributes of the file, and the tokenizer's bytes, where there are some, as the
// dataset `tokenizer`. For other programs; nothing here reads it.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/base/view.hpp"

namespace trireme {

struct WeightsDataset {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;  // f32 or f64
};

using Setting =
    std::pair<std::string,
              std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>>;

// Calls `next` with elements of a dataset, in order, as many as it likes at a time.
using ElementSink = std::function<void(std::span<const std::byte>)>;
using ElementSource = std::function<void(const WeightsDataset&, const ElementSink& next)>;

// Creates the file, which must not exist, and syncs it. Throws Error and leaves it unfinished.
void write_weights_file(const std::filesystem::path&, std::span<const WeightsDataset>,
                        std::span<const Setting>, const std::string& tokenizer,
                        const ElementSource&);

}  // namespace trireme
