#pragma once
#include <cstdint>

namespace trireme {

// Whether an operation overwrites its result or adds to the numbers that are already in the
// result's memory.
enum class Accumulate : std::uint8_t { overwrite, add };

}  // namespace trireme
