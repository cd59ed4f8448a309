#include "lib/matrix/matrix_rule.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"

namespace trireme {

double scale_of(MatrixScale scale, std::int64_t out, std::int64_t in) {
  const auto rows = static_cast<double>(out), columns = static_cast<double>(in);
  switch (scale) {
    case MatrixScale::jordan:
      return std::sqrt(std::max(1.0, rows / columns));
    case MatrixScale::adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MatrixScale::spectral:
      return std::sqrt(rows / columns);
  }
  fail("no scale of matrices has the number {}", static_cast<int>(scale));
}

std::vector<std::string_view> elementwise_arrays(const MatrixRule& rule) {
  std::vector<std::string_view> names;
  for (const auto& part : {before(rule), after(rule)})
    for (const auto name : arrays_of(part)) names.push_back(name);
  return names;
}

}  // namespace trireme
