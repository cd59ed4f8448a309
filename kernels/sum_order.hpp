#pragma once
#include <cstdint>

namespace trireme {

// The order in which a product's sums over K are made: any; by shapes and strides alone, so that it
// has the same bits on any number of threads; or by those of a row alone, so that a row has the
// same bits whatever rows stand beside it.
enum class SumOrder : std::uint8_t { any, by_shape, by_row };

}  // namespace trireme
