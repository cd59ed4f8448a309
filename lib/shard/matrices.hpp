#pragma once
// The matrices that optimizers with a matrix rule (lib/matrix/matrix_rule.hpp) update as a whole,
// and the place of their square arrays. All functions are pure.
//
// A packed weight consists of several matrices: q, k and v, or gate and up. Each expert's weights
// are separate parameters. In an adapter's `a` and `b`, the rows of each product are one matrix.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/matrix/matrix_rule.hpp"
#include "lib/model/spec.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// Rows of a parameter that an optimizer updates as one matrix. `first` is the index of the matrix's
// first element in the parameter.
struct Matrix {
  ParamId param;
  std::int64_t first, rows, columns;
  std::int64_t count() const { return rows * columns; }
  bool operator==(const Matrix&) const = default;
};

// Returns flags by ParamId: 1 if the matrix rule updates the parameter. These are the parameters
// with two dims that learn from gradients, except those that `elementwise` matches. Without
// patterns, the exceptions are embedding tables, positions, the head, routers and gates of shared
// experts. Throws Error if a pattern matches no parameter, or only parameters that are no matrices.
std::vector<std::uint8_t> updated_as_matrices(const ModelSpec&,
                                              std::span<const std::string> elementwise);

// Returns the matrices of a parameter with two dims, in order. They cover the parameter.
std::vector<Matrix> matrices_of(const ModelSpec&, ParamId, HeadMatrices);

// Returns the shape of a square array of a parameter. The arrays of several matrices are stored one
// after another: with the shape [n, n] for one matrix, [matrices, n, n] if all have the same size,
// and otherwise [elements].
Shape shape_of(const SquareArray&, std::span<const Matrix>);
// Returns the number of rows, and of columns, of a matrix's square array.
std::int64_t width_of(const SquareArray&, const Matrix&);
// Returns the number of elements of a matrix's square array.
std::int64_t count_of(const SquareArray&, const Matrix&);

}  // namespace trireme
