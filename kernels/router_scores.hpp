#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// Function by which a router converts a token's logits z_E to scores: softmax(z), or the sigmoid of
// each logit (DeepSeek-AI 2024, "DeepSeek-V3").
enum class RouterScores : std::uint8_t { softmax, sigmoid };
template <>
inline constexpr auto value_names<RouterScores> = named<RouterScores>("softmax", "sigmoid");

}  // namespace trireme
