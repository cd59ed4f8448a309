#pragma once
#include <cstdint>

namespace trireme {

// Order in which a matrix product adds its terms over K. `any` leaves the order to the backend.
// `by_shape` depends only on shapes and strides, so that the bits are the same for any number of
// threads. `by_row` depends only on the shape and strides of one row, so that the bits of a row do
// not depend on the other rows of the product.
enum class SumOrder : std::uint8_t { any, by_shape, by_row };

}  // namespace trireme
