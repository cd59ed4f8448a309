#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// What a norm of queries and keys takes together: the channels of a head, whose weight all heads
// share (Qwen3), or those of all heads, each with a weight of its own (OLMoE).
enum class QkNormOver : std::uint8_t { head, width };
template <>
inline constexpr auto value_names<QkNormOver> = named<QkNormOver>("head", "width");

}  // namespace trireme
