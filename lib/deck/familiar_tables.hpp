#pragma once
// Tables of familiar names (familiar.hpp), by what the settings concern.
#include <span>

#include "lib/deck/familiar.hpp"

namespace trireme {

std::span<const FamiliarName> familiar_names_of_models();
std::span<const FamiliarName> familiar_names_of_training();
std::span<const FamiliarName> familiar_names_of_jobs();

}  // namespace trireme
