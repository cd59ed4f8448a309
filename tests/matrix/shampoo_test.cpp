#include "lib/matrix/shampoo.hpp"

#include <gtest/gtest.h>
#include <pmmintrin.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/dry/dry.hpp"
#include "lib/matrix/inverse_root.hpp"
#include "lib/matrix/matrix_step.hpp"
#include "tests/matrix/on_backend.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

// (a / ||a|| + eps I)^(-1/4)
DoubleMatrix inverse_root_of(const DoubleMatrix& a, double eps) {
  const double norm = norm_of(a);
  return with_eigenvalues(norm == 0 ? a : 1 / norm * a,
                          [&](double s) { return std::pow(s + eps, -0.25); });
}

// The formulas of Shampoo, with roots from eigenvalue decompositions.
struct ShampooOracle {
  ShampooOracle(const matrix_rule::Shampoo& r, std::int64_t rows, std::int64_t columns)
      : rule(r),
        left(rows, rows),
        left_root(rows, rows),
        right(columns, columns),
        right_root(columns, columns) {}

  DoubleMatrix step(const DoubleMatrix& g) {
    ++count;
    left = rule.beta * left + (1 - rule.beta) * (g * transposed(g));
    right = rule.beta * right + (1 - rule.beta) * (transposed(g) * g);
    if (count == 1 || count % rule.every == 0) {
      left_root = inverse_root_of(left, rule.eps);
      right_root = inverse_root_of(right, rule.eps);
    }
    const auto o = left_root * (1 / norm_of(g) * g) * right_root;
    return std::sqrt(static_cast<double>(std::min(g.rows, g.columns))) / norm_of(o) * o;
  }

  matrix_rule::Shampoo rule;
  DoubleMatrix left, left_root, right, right_root;
  std::int64_t count = 0;
};

// Bound of the relative error of a root that is computed in type t. The sums of the average and of
// each product change a / ||a|| by sum_error. This changes the power -1/4 of an eigenvalue, which
// is at least eps, by the relative error sum_error / (4 eps). The errors of the first products
// count most, because the smallest eigenvalue of m then grows: 1 + 1/2.4 + 1/2.4^2 + ... < 2, for 4
// products.
double root_error(DType t, std::int64_t n, std::int64_t terms, double eps) {
  return 0.25 * (sum_error(t, terms, 1) + 8 * sum_error(t, n, 1)) / eps;
}

class ShampooTest : public OnBackend {
 protected:
  // Runs the rule on the gradients, and compares states and steps with the oracle's.
  void expect_steps(const char* what, const matrix_rule::Shampoo& rule,
                    const std::vector<DoubleMatrix>& gradients) {
    const auto rows = gradients[0].rows, columns = gradients[0].columns;
    ShampooOracle oracle(rule, rows, columns);
    start(rows, columns);
    const DType w = wide(type());
    const double u = roundoff(w), average = sum_error(w, std::max(rows, columns), 1) + 4 * u;
    const double left = root_error(w, rows, columns, rule.eps),
                 right = root_error(w, columns, rows, rule.eps);
    // An error of a root relative to its largest eigenvalue is larger relative to the step, whose
    // direction may be that of the smallest: by eps^(-1/4), once for each root.
    const double step = (left + right + 2 * average) / std::sqrt(rule.eps) + roundoff(type());
    for (const auto& exact : gradients) {
      const auto g = rounded(exact, type());
      const auto want = oracle.step(g), got = run(rule, g);
      SCOPED_TRACE(fmt::format("{}, update {}", what, oracle.count));
      EXPECT_LE(relative_distance(square(0), oracle.left), average);
      EXPECT_LE(relative_distance(square(2), oracle.right), average);
      EXPECT_LE(relative_distance(square(1), oracle.left_root), left);
      EXPECT_LE(relative_distance(square(3), oracle.right_root), right);
      EXPECT_LE(relative_distance(got, want), step);
    }
  }

  // New state, all zeros.
  void start(std::int64_t rows, std::int64_t columns) {
    squares_.clear();
    views_.clear();
    for (const auto n : {rows, rows, columns, columns}) {
      squares_.push_back(machine.put(DoubleMatrix(n, n), wide(type())));
      views_.push_back(squares_.back().view());
    }
    count_ = 0;
  }
  DoubleMatrix square(std::size_t i) { return machine.get(views_[i]); }
  bool finite_state() {
    return std::ranges::all_of(views_, [&](const View& v) {
      return std::ranges::all_of(machine.get(v).x, [](double x) { return std::isfinite(x); });
    });
  }
  DoubleMatrix run(const matrix_rule::Shampoo& rule, const DoubleMatrix& g) {
    const auto x = machine.put(g, type());
    const auto need = shampoo_scratch(g.rows, g.columns);
    const FencedScratch compute(machine, type(), need.compute),
        more(machine, wide(type()), need.wide);
    matrix_step(machine.backend(), rule, {.x_MN = x.view(), .squares = views_, .count = ++count_},
                compute.view(), more.view(), SumOrder::any);
    compute.expect_whole();
    more.expect_whole();
    return machine.get(x.view());
  }

 private:
  std::vector<Tensor> squares_;
  std::vector<View> views_;
  std::int64_t count_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Backends, ShampooTest, testing::ValuesIn(matrix_cases),
                         name_of_matrix_case);

std::vector<DoubleMatrix> gradients(int n, std::int64_t rows, std::int64_t columns,
                                    double amplitude = 1) {
  std::vector<DoubleMatrix> all;
  for (int i = 0; i < n; ++i)
    all.push_back(random_matrix(rows, columns, static_cast<std::uint64_t>(100 + i), amplitude));
  return all;
}

// Large enough that f32 leaves digits, and yet many factors.
const matrix_rule::Shampoo coarse{.beta = 0.8, .eps = 1e-2, .every = 1};

TEST_P(ShampooTest, IsThatOfItsPapers) {
  expect_steps("wide", coarse, gradients(3, 7, 20));
  expect_steps("tall", coarse, gradients(3, 18, 5));
  expect_steps("square", coarse, gradients(3, 12, 12));
  expect_steps("a row", coarse, gradients(2, 1, 9));
  expect_steps("a column", coarse, gradients(2, 10, 1));
  expect_steps("a number", coarse, gradients(2, 1, 1));
  expect_steps("rank 2", coarse, {random_matrix(9, 2, 1) * random_matrix(2, 14, 2)});
}

TEST_P(ShampooTest, ComputesRootsAtTheFirstUpdateAndAtMultiples) {
  auto rule = coarse;
  rule.every = 3;
  expect_steps("every 3", rule, gradients(7, 5, 8));
}

// With the default eps and a rank below the number of rows. inverse_root.hpp states the error of
// the roots: about 1/4 u / eps, that is 1.5 % in f32.
TEST_P(ShampooTest, ComputesRootsWithTheDefaultEps) {
  const matrix_rule::Shampoo rule{.every = 1};
  const auto g = rounded(random_matrix(40, 6, 3), type());
  ShampooOracle oracle(rule, 40, 6);
  const auto want = oracle.step(g);
  start(40, 6);
  const auto got = run(rule, g);
  const double u = roundoff(wide(type()));
  EXPECT_LE(relative_distance(square(1), oracle.left_root), u / rule.eps);
  EXPECT_LE(relative_distance(square(3), oracle.right_root), u / rule.eps);
  EXPECT_LE(relative_distance(got, want), 2 * u / rule.eps + roundoff(type()));
}

TEST_P(ShampooTest, TakesNoStepForAZeroGradient) {
  start(4, 6);
  for (int i = 0; i < 2; ++i) {
    for (const double x : run(coarse, DoubleMatrix(4, 6)).x) EXPECT_EQ(x, 0);
    EXPECT_TRUE(finite_state());
  }
  // And goes on as if it had not been.
  const auto g = rounded(random_matrix(4, 6, 5), type());
  const auto after_zeros = run(coarse, g);
  start(4, 6);
  EXPECT_EQ(after_zeros.x, run(coarse, g).x);
  // L is beta L.
  const auto left = square(0);
  for (const double x : run(coarse, DoubleMatrix(4, 6)).x) EXPECT_EQ(x, 0);
  EXPECT_LE(relative_distance(square(0), coarse.beta * left), 2 * roundoff(wide(type())));
}

// The step does not depend on the gradients' scale, while their squares are numbers.
TEST_P(ShampooTest, TakesSmallAndLargeGradients) {
  expect_steps("small", coarse, gradients(2, 5, 7, 1e-14));
  expect_steps("large", coarse, gradients(2, 7, 5, 1e16));
}

TEST_P(ShampooTest, CountsGradientsAsZerosWhoseSquaresAreNoNumbers) {
  for (const double amplitude : {1e-30, 1e30}) {
    if (type() == DType::f64) {
      expect_steps("extreme", coarse, gradients(2, 5, 7, amplitude));
      continue;
    }
    start(5, 7);
    for (const double x : run(coarse, random_matrix(5, 7, 6, amplitude)).x) EXPECT_EQ(x, 0);
    for (const std::size_t i : {0U, 2U})
      for (const double x : square(i).x) EXPECT_EQ(x, 0);
    EXPECT_TRUE(finite_state());
    // Also among others.
    const auto g = rounded(random_matrix(5, 7, 7), type());
    run(coarse, g);
    run(coarse, random_matrix(5, 7, 8, amplitude));
    EXPECT_TRUE(finite_state());
    const auto o = run(coarse, g);
    EXPECT_TRUE(std::ranges::all_of(o.x, [](double x) { return std::isfinite(x); }));
    EXPECT_NEAR(norm_of(o), std::sqrt(5.0), std::sqrt(5.0) * 4 * roundoff(type()));
  }
}

// Averages fade, become denormal and then zero. Their inverses must not overflow.
TEST_P(ShampooTest, StaysFiniteWhileTheAverageFades) {
  auto rule = coarse;
  rule.beta = type() == DType::f64 ? 1e-40 : 1e-5;
  start(3, 4);
  run(rule, random_matrix(3, 4, 9));
  for (int i = 0; i < 8; ++i) {
    for (const double x : run(rule, DoubleMatrix(3, 4)).x) EXPECT_EQ(x, 0);
    EXPECT_TRUE(finite_state()) << i;
  }
}

// A rank of 1 has the largest condition number that eps permits: the eigenvalues are 1 + eps and
// eps. In f64, the rounding errors of the iteration are u / eps.
TEST(InverseRoot, HasEnoughFactorsForEps) {
  MatrixMachine machine("ref");
  for (const double eps : {1.0, 0.1, 1e-2, 3e-3, 1e-4, 2e-5, 1e-6, 4e-8}) {
    DoubleMatrix a(3, 3);
    a(1, 1) = 5;
    const auto in = machine.put(a, DType::f64), out = machine.put(a, DType::f64);
    const FencedScratch scratch(machine, DType::f64, inverse_root_scratch(3));
    inverse_fourth_root(machine.backend(), out.view(), in.view(), eps, Scratch(scratch.view()),
                        SumOrder::any);
    scratch.expect_whole();
    const auto root = machine.get(out.view());
    const double slack = 2.5e-13 + 0x1p-51 / eps;
    EXPECT_NEAR(root(1, 1) / std::pow(1 + eps, -0.25), 1, slack) << eps;
    EXPECT_NEAR(root(0, 0) / std::pow(eps, -0.25), 1, slack) << eps;
    EXPECT_EQ(root(0, 1), 0);
    EXPECT_EQ(machine.get(in.view()).x, a.x);
  }
}

// Keeps denormal numbers, which threads of the host backend count as zero.
class KeptDenormals {
 public:
  KeptDenormals() { _mm_setcsr(before_ & ~(_MM_FLUSH_ZERO_MASK | _MM_DENORMALS_ZERO_MASK)); }
  ~KeptDenormals() { _mm_setcsr(before_); }
  KeptDenormals(const KeptDenormals&) = delete;
  KeptDenormals& operator=(const KeptDenormals&) = delete;

 private:
  unsigned before_ = _mm_getcsr();
};

// The inverse of a denormal number overflows. The elements are 2,024 times the smallest number.
TEST(InverseRoot, TakesDenormalMatrices) {
  MatrixMachine machine("ref");
  const KeptDenormals kept;
  DoubleMatrix a(3, 3);
  for (std::int64_t i = 0; i < 3; ++i) a(i, i) = 1e-320;
  const auto in = machine.put(a, DType::f64), out = machine.put(a, DType::f64),
             scratch = machine.put(DoubleMatrix(1, inverse_root_scratch(3)), DType::f64);
  inverse_fourth_root(machine.backend(), out.view(), in.view(), 0.01,
                      Scratch(scratch.view().reshaped({inverse_root_scratch(3)})), SumOrder::any);
  const auto root = machine.get(out.view());
  const double exact = std::pow(1 / std::sqrt(3.0) + 0.01, -0.25);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_NEAR(root(i, i), exact, 1e-3);
}

// Errors of the roots of the extreme eigenvalues after all factors, and after one fewer.
TEST(InverseRoot, HasNoMoreFactorsThanNecessary) {
  const auto error = [](double eps, int factors) {
    double worst = 0;
    for (const double eigenvalue : {eps, 1 + eps}) {
      double h = std::pow(2.5 / (1 + eps), 0.25);
      for (int i = 0; i < factors; ++i) h *= (5 - std::pow(h, 4) * eigenvalue) / 4;
      worst = std::max(worst, std::abs(1 - h * std::pow(eigenvalue, 0.25)));
    }
    return worst;
  };
  for (const double eps : {1.0, 0.1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12}) {
    EXPECT_LE(error(eps, root_factors(eps)), 2.5e-13 + 0x1p-49) << eps;
    EXPECT_GT(error(eps, root_factors(eps) - 1), 2.5e-13) << eps;
  }
  EXPECT_EQ(root_factors(1e-6), 19);
  for (const double eps : {0.0, -1e-6, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(message_of([&] { root_factors(eps); }).find("positive eps"), std::string::npos);
}

// On average over updates with one computation of the roots.
TEST(Shampoo, CountsTheFlopsOfItsProducts) {
  const matrix_rule::Shampoo rule{.eps = 1e-3, .every = 4};
  for (const auto& [rows, columns] : {std::pair{6, 20}, {20, 6}, {9, 9}, {1, 5}, {5, 1}}) {
    Dry dry(roomy_target());
    const auto need = step_scratch(rule, rows, columns);
    const auto empty = [&](const Shape& s, DType t) {
      return Tensor::empty(dry, s, t, MemoryKind::transient);
    };
    const auto x = empty({rows, columns}, DType::bf16), compute = empty({1}, DType::bf16),
               more = empty({need.wide}, DType::f32);
    std::vector<Tensor> squares;
    std::vector<View> views;
    for (const auto n : {rows, rows, columns, columns}) {
      squares.push_back(empty({n, n}, DType::f32));
      views.push_back(squares.back().view());
    }
    for (std::int64_t count = 5; count <= 8; ++count)
      matrix_step(dry, rule, {.x_MN = x.view(), .squares = views, .count = count}, compute.view(),
                  more.view(), SumOrder::any);
    EXPECT_DOUBLE_EQ(dry.flops() / 4, step_flops(rule, rows, columns)) << rows << " x " << columns;
    EXPECT_EQ(dry.race_count(), 0);
  }
}

}  // namespace
}  // namespace trireme
