#pragma once
// What an error message suggests instead of a name pattern that matches nothing.
#include <functional>
#include <string>
#include <string_view>

#include "lib/model/spec.hpp"

namespace trireme {

// Returns the rest of a sentence, such as "did you mean \"embedding.*\"?" or "names look like
// \"blocks.0.qkv.weight\"". It names only parameters that `selectable` accepts.
std::string advice_for_pattern(const ModelSpec&, std::string_view pattern,
                               const std::function<bool(const ParamSpec&)>& selectable);

}  // namespace trireme
