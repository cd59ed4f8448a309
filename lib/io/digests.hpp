#pragma once
// The table digests.csv: one row per step, with the digests of all arrays of the model after the
// step.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/digest.hpp"

namespace trireme {

// `arrays` contains the array names, separated by spaces. `digests` contains 16 hexadecimal digits
// per digest, by array, then by parameter. A missing digest is 16 hyphens.
inline constexpr std::string_view digest_columns = "step,arrays,digests";

// One row of digests.csv.
struct DigestRow : DigestTable {
  std::int64_t step = 0;
};
std::string to_csv(const DigestRow&);
// Parses a row of digests.csv. Throws Error, saying what is wrong, if the row is invalid.
DigestRow parse_digest_row(std::string_view);
bool is_digest_row(std::string_view);

}  // namespace trireme
