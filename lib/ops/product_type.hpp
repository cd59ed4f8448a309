#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// Type to which the operands of a linear layer's products are rounded: the compute type, or fp8
// (kernels/fp8.hpp).
enum class ProductType : std::uint8_t { compute, fp8 };
template <>
inline constexpr auto value_names<ProductType> = named<ProductType>("compute", "fp8");

}  // namespace trireme
