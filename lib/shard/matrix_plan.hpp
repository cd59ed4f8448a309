#pragma once
// The plan of a step of an optimizer that sees whole matrices: which rank of a shard group computes
// the step of which matrix, and in what order. All functions are pure.
//
// Each matrix has one owner. The owner receives the parts of the matrix that other ranks hold, and
// sends the step back. Matrices are assigned in order of falling cost, each to the rank with the
// least cost so far (Graham 1969). If several ranks have the least cost, the owner is the one that
// holds most of the matrix. The costs of two ranks therefore differ by at most the cost of one
// matrix. The matrices of an owner keep this order. Round k consists of matrix k of every owner, so
// the matrices of a round have similar costs.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/shard/layout.hpp"
#include "lib/shard/matrices.hpp"

namespace trireme {

// A matrix with its place and owner. `elements` are those of its segment.
struct OwnedMatrix {
  Matrix matrix;
  std::size_t segment = 0;  // index in the layout
  Range elements;
  double cost = 0;
  int owner = 0;
};

// Matrices whose steps are computed at the same time. Each rank owns at most one of them.
struct MatrixRound {
  std::vector<OwnedMatrix> matrices;
  // Returns the matrix that a rank owns, or null.
  const OwnedMatrix* of(int owner) const;
};

// Largest numbers of elements that any rank needs or sends in any round. All ranks allocate memory
// of these sizes, so that their memory use is equal.
struct MatrixSizes {
  std::int64_t matrix = 0;  // elements of a matrix
  std::int64_t held = 0;    // elements of a round's matrices that one rank holds
  std::int64_t sent = 0;    // elements of a matrix that one rank holds
};

struct MatrixPlan {
  std::vector<MatrixRound> rounds;
  MatrixSizes sizes;
};

// Returns the plan for the matrices of some segments of a layout, which `ranks` ranks share.
MatrixPlan plan_matrices(const ModelSpec&, const Layout&, std::span<const std::size_t> segments,
                         HeadMatrices, int ranks, const std::function<double(const Matrix&)>& cost);

}  // namespace trireme
