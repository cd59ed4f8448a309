#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// What a router makes of a token's logits z_E: softmax(z), or the sigmoid of each by itself
// (DeepSeek-AI 2024, "DeepSeek-V3").
enum class RouterScores : std::uint8_t { softmax, sigmoid };
template <>
inline constexpr auto value_names<RouterScores> = named<RouterScores>("softmax", "sigmoid");

}  // namespace trireme
