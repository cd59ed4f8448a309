#pragma once
// Rules of optimizers that see a whole matrix, as values: each rule is a struct with its
// hyperparameters. A step on a matrix w_MN with the gradient g_MN has three parts:
//
//   1. The rule before(rule) turns g into a direction d, element by element.
//   2. The owner of the matrix, the one rank that receives all of d, computes the step o from d
//      (matrix_step.hpp).
//   3. The rule after(rule) updates w, element by element, with `scale` o in place of a gradient.
//
// MatrixScale selects the factor `scale`. All rules use decoupled weight decay, as in
// kernels/update_rule.hpp.
//
// A rule has two sorts of optimizer state. The arrays of before(rule) and after(rule) hold one
// number for each weight. The square arrays of a matrix have as many rows and columns as the matrix
// has rows (MatrixSide::rows) or columns (MatrixSide::columns).
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/update_rule.hpp"
#include "lib/base/value_names.hpp"

namespace trireme {

// The polynomials of Muon's five Newton-Schulz steps (newton_schulz.hpp).
enum class MuonPolynomials : std::uint8_t { jordan, polar_express };
template <>
inline constexpr auto value_names<MuonPolynomials> = named<MuonPolynomials>("jordan",
                                                                            "polar-express");

// Formulas of the factor on the step of a matrix with `out` rows and `in` columns:
//
//   jordan     of Jordan et al. 2024
//   adamw      gives the step about the same root mean square as a step of AdamW (Liu et al. 2025,
//              arXiv 2502.16982)
//   spectral   limits the step's products with inputs of root mean square 1 to a root mean square
//              of about 1 (Bernstein 2025, "Deriving Muon"; Pethick et al. 2025, arXiv 2502.07529)
enum class MatrixScale : std::uint8_t { jordan, adamw, spectral };
template <>
inline constexpr auto value_names<MatrixScale> = named<MatrixScale>("sqrt(max(1, out/in))",
                                                                    "0.2 sqrt(max(out, in))",
                                                                    "sqrt(out/in)");

// Returns the factor for a matrix of the given size.
double scale_of(MatrixScale, std::int64_t out, std::int64_t in);

// A square array of a matrix, and whether its size is the number of the matrix's rows or columns.
enum class MatrixSide : std::uint8_t { rows, columns };
struct SquareArray {
  std::string_view name;
  MatrixSide side;
};

namespace matrix_rule {

// Muon (Jordan et al. 2024): the direction is m' = g + momentum m with m = momentum m + g
// (`nesterov`), or m. The step is an approximation of U V', where m' = U S V' is the singular value
// decomposition.
struct Muon {
  static constexpr const char* name = "muon";
  static constexpr std::array<SquareArray, 0> squares{};
  double momentum = 0.95;
  bool nesterov = true;
  MuonPolynomials polynomials = MuonPolynomials::jordan;

  UpdateRule before() const { return rule::Momentum{momentum, nesterov}; }
  UpdateRule after() const { return rule::Sgd{}; }
};

// Shampoo (Gupta, Koren, Singer 2018) with moving averages: L = beta L + (1 - beta) g g' and
// R = beta R + (1 - beta) g' g. The step is L^(-1/4) g R^(-1/4), scaled to the Frobenius norm
// sqrt(min(M, N)) of an orthogonal matrix. Then momentum is applied to the steps. The roots are
// computed at every `every`-th update, with `eps` times the Frobenius norm of L (or R) added to its
// diagonal.
struct Shampoo {
  static constexpr const char* name = "shampoo";
  static constexpr std::array<SquareArray, 4> squares{{{"left", MatrixSide::rows},
                                                       {"left_root", MatrixSide::rows},
                                                       {"right", MatrixSide::columns},
                                                       {"right_root", MatrixSide::columns}}};
  double momentum = 0.95;
  bool nesterov = true;
  double beta = 0.95;
  double eps = 1e-6;
  std::int64_t every = 10;

  UpdateRule before() const { return rule::Sgd{}; }
  UpdateRule after() const { return rule::Momentum{momentum, nesterov}; }
};

}  // namespace matrix_rule

using MatrixRule = std::variant<matrix_rule::Muon, matrix_rule::Shampoo>;

inline UpdateRule before(const MatrixRule& rule) {
  return std::visit([](const auto& r) { return r.before(); }, rule);
}
inline UpdateRule after(const MatrixRule& rule) {
  return std::visit([](const auto& r) { return r.after(); }, rule);
}
inline std::span<const SquareArray> squares_of(const MatrixRule& rule) {
  return std::visit([](const auto& r) { return std::span<const SquareArray>(r.squares); }, rule);
}
// Returns the names of the arrays with one number for each weight: those of before(rule), then
// those of after(rule).
std::vector<std::string_view> elementwise_arrays(const MatrixRule&);

}  // namespace trireme
