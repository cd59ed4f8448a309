#pragma once
#include <cstdint>

namespace trireme {

// Selects whether an operation overwrites the memory of its result or adds to the numbers already
// there.
enum class Accumulate : std::uint8_t { overwrite, add };

}  // namespace trireme
