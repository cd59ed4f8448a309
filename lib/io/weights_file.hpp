#pragma once
// Writes weights to a plain HDF5 file for other programs. The group `weights` contains one dataset
// per parameter, with the parameter's shape. Settings are attributes of the file. If there is a
// tokenizer, the dataset `tokenizer` contains its bytes. Trireme itself never reads this file.
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

// The name, shape and type of a parameter's dataset.
struct WeightsDataset {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;  // f32 or f64
};

// The name and value of an attribute.
using SettingValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Setting = std::pair<std::string, SettingValue>;

// Function that receives the elements of a dataset. A source calls it with any number of elements
// at a time, in order.
using ElementSink = std::function<void(std::span<const std::byte>)>;
using ElementSource = std::function<void(const WeightsDataset&, const ElementSink& next)>;

// Creates the file, which must not exist, and syncs it to disk. If that fails, throws Error and
// leaves an incomplete file.
void write_weights_file(const std::filesystem::path&, std::span<const WeightsDataset>,
                        std::span<const Setting>, const std::string& tokenizer,
                        const ElementSource&);

}  // namespace trireme
