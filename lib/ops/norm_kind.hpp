#pragma once
#include <cstdint>

namespace trireme {

enum class NormKind : std::uint8_t { layer, rms };

}  // namespace trireme
