#pragma once
// Identifies the tokens of validation sets, so that a restart knows whether its evaluations are
// comparable with those before it.
#include <span>
#include <string>
#include <vector>

#include "lib/data/deck_data.hpp"

namespace trireme {

// Returns a hash of the tokens of each validation set by its name, as JSON text
// (RunExtra::validation_sets).
std::string hashes_of_sets(std::span<const ValidationData>);
// Returns the names of the sets that both texts contain and whose hashes differ. Throws Error if a
// text is no JSON object.
std::vector<std::string> changed_sets(const std::string& before, const std::string& now);
// Returns `now` with the hashes of the sets that only `before` contains, because the tables of
// these sets remain in the run directory. `before` may be empty.
std::string with_former_sets(const std::string& now, const std::string& before);

}  // namespace trireme
