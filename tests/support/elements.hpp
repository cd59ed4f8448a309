#pragma once
// Converts numbers to the bytes of a view's elements, and back.
#include <cstddef>
#include <vector>

#include "lib/base/dtype.hpp"

namespace trireme {

// Rounded to the type.
std::vector<std::byte> encode(DType, const std::vector<double>&);
std::vector<double> decode(DType, const std::vector<std::byte>&);

}  // namespace trireme
