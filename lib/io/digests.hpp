#pragma once
// digests.csv: a row a step, with the digests of all arrays of the model after it.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/digest.hpp"

namespace trireme {

// `arrays`: their names, a space between two. `digests`: 16 hexadecimal digits each, by array, then
// parameter; 16 hyphens where there is none.
inline constexpr std::string_view digest_columns = "step,arrays,digests";

struct DigestRow : DigestTable {
  std::int64_t step = 0;
};
std::string to_csv(const DigestRow&);
// Error saying what is wrong with the row.
DigestRow parse_digest_row(std::string_view);
bool is_digest_row(std::string_view);

}  // namespace trireme
