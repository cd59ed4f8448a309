#pragma once
#include <cstdint>

namespace trireme {

// What becomes of the numbers that a result's memory holds.
enum class Accumulate : std::uint8_t { overwrite, add };

}  // namespace trireme
