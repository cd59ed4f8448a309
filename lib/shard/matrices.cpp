#include "lib/shard/matrices.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/pattern.hpp"
#include "lib/shard/pattern_advice.hpp"

namespace trireme {

static bool is_matrix(const ParamSpec& p) {
  return p.shape.dims() == 2 && p.learns_from == LearnsFrom::gradients;
}

static bool elementwise_by_role(ParamRole role) {
  switch (role) {
    case ParamRole::linear:
    case ParamRole::expert:
    case ParamRole::adapter_a:
    case ParamRole::adapter_b:
      return false;
    case ParamRole::embedding:
    case ParamRole::positions:
    case ParamRole::norm:
    case ParamRole::sinks:
    case ParamRole::router:
    case ParamRole::shared_gate:
    case ParamRole::head:
    case ParamRole::adapter_norms:
      return true;
  }
  return true;
}

std::vector<std::uint8_t> updated_as_matrices(const ModelSpec& spec,
                                              std::span<const std::string> elementwise) {
  std::vector<std::uint8_t> whole;
  for (const auto& p : spec.params)
    whole.push_back(is_matrix(p) && (!elementwise.empty() || !elementwise_by_role(p.role)));
  for (const auto& pattern : elementwise) {
    bool found = false;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (!matches(pattern, spec.params[i].name)) continue;
      found = found || is_matrix(spec.params[i]);
      whole[i] = 0;
    }
    if (!found)
      fail("optimizer.adamw_patterns: the pattern \"{}\" matches no matrix that is trained; {}",
           pattern, advice_for_pattern(spec, pattern, is_matrix));
  }
  return whole;
}

// Divides rows [row, row + rows) of a parameter into matrices of `each` rows.
static void divide(std::vector<Matrix>& all, ParamId id, std::int64_t row, std::int64_t rows,
                   std::int64_t each, std::int64_t columns) {
  for (const auto end = row + rows; row < end; row += each)
    all.push_back({id, row * columns, each, columns});
}

std::vector<Matrix> matrices_of(const ModelSpec& spec, ParamId id, HeadMatrices heads) {
  const auto& p = spec.params[id.index()];
  expect(p.shape.dims() == 2, "a matrix has two dims");
  const auto rows = p.shape[0], columns = p.shape[1];
  std::vector<Matrix> all;
  for (const auto& adapter : spec.adapters) {
    if (id == adapter.a) {
      divide(all, id, 0, rows, adapter.rank, columns);
      return all;
    }
    if (id != adapter.b) continue;
    for (const auto& product : adapter.products)
      divide(all, id, product.row, product.channels, product.channels, columns);
    return all;
  }
  for (const auto& part : p.packed) {
    const bool of_heads = part.name == "q" || part.name == "k" || part.name == "v";
    const bool by_head = of_heads && heads == HeadMatrices::each;
    divide(all, id, part.row, part.rows, by_head ? spec.config.head_dim : part.rows, columns);
  }
  if (all.empty()) all.push_back({id, 0, rows, columns});
  std::int64_t covered = 0;
  for (const auto& matrix : all) {
    expect(matrix.first == covered, "matrices cover their parameter in order");
    covered += matrix.count();
  }
  expect(covered == p.shape.count(), "matrices cover their parameter");
  return all;
}

std::int64_t width_of(const SquareArray& array, const Matrix& matrix) {
  return array.side == MatrixSide::rows ? matrix.rows : matrix.columns;
}

std::int64_t count_of(const SquareArray& array, const Matrix& matrix) {
  const auto n = width_of(array, matrix);
  return n * n;
}

Shape shape_of(const SquareArray& array, std::span<const Matrix> matrices) {
  std::int64_t elements = 0;
  bool alike = true;
  for (const auto& matrix : matrices) {
    elements += count_of(array, matrix);
    alike = alike && matrix.rows == matrices[0].rows;
  }
  const auto n = width_of(array, matrices[0]);
  if (matrices.size() == 1) return {n, n};
  // All matrices of a parameter have the same number of columns.
  if (alike || array.side == MatrixSide::columns) return {std::ssize(matrices), n, n};
  return {elements};
}

}  // namespace trireme
