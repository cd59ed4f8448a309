#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// Channels over which the norm of queries and keys is computed. `head` means the channels of one
// head, with a weight that all heads share (Qwen3). `width` means the channels of all heads
// together, with a separate weight for each head (OLMoE).
enum class QkNormOver : std::uint8_t { head, width };
template <>
inline constexpr auto value_names<QkNormOver> = named<QkNormOver>("head", "width");

}  // namespace trireme
