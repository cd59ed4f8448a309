#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "lib/base/dtype.hpp"

namespace trireme {

// Returns the index of the first NaN or infinity in an array of `f32` or `f64` numbers, given as
// raw bytes. Returns nullopt if all numbers are finite.
std::optional<std::size_t> first_not_finite(std::span<const std::byte>, DType);

}  // namespace trireme
