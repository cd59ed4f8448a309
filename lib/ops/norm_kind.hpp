#pragma once
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// Kinds of normalization: layer norm and RMS norm.
enum class NormKind : std::uint8_t { layer, rms };
template <>
inline constexpr auto value_names<NormKind> = named<NormKind>("layer", "rms");

}  // namespace trireme
