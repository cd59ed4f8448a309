#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// The channels over which a norm of queries and keys is computed. `head`: the channels of one head,
// with a weight that all heads share (Qwen3). `width`: the channels of all heads, each with its own
// weight (OLMoE).
enum class QkNormOver : std::uint8_t { head, width };
template <>
inline constexpr auto value_names<QkNormOver> = named<QkNormOver>("head", "width");

}  // namespace trireme
