#pragma once
// The table digests.csv. It has one row per step with the digests (checksums) of all arrays of the
// model after the step.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/digest.hpp"

namespace trireme {

// Columns of the table. `arrays` contains the array names, separated by spaces. `digests` contains
// 16 hexadecimal digits per digest, ordered by array and then by parameter. A missing digest is
// written as 16 hyphens.
inline constexpr std::string_view digest_columns = "step,arrays,digests";

// One row of digests.csv.
struct DigestRow : DigestTable {
  std::int64_t step = 0;
};
std::string to_csv(const DigestRow&);
// Parses a row of digests.csv. Throws Error, with the reason, if the row is invalid.
DigestRow parse_digest_row(std::string_view);
bool is_digest_row(std::string_view);

}  // namespace trireme
