#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "lib/base/dtype.hpp"

namespace trireme {

// The place of the first NaN or infinity among numbers as they lie in memory, f32 or f64.
std::optional<std::size_t> first_not_finite(std::span<const std::byte>, DType);

}  // namespace trireme
