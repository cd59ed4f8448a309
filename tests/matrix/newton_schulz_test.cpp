#include "lib/matrix/newton_schulz.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dry/dry.hpp"
#include "lib/matrix/matrix_step.hpp"
#include "tests/matrix/on_backend.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/dry.hpp"

namespace trireme {
namespace {

// The polynomials, written down once more: Jordan's from muon.py of KellerJordan/Muon, and those of
// train_gpt.py of KellerJordan/modded-nanogpt.
struct Polynomials {
  MuonPolynomials set;
  double factor, eps;
  double abc[5][3];
};
const Polynomials polynomials[] = {
    {MuonPolynomials::jordan,
     1,
     1e-7,
     {{3.4445, -4.7750, 2.0315},
      {3.4445, -4.7750, 2.0315},
      {3.4445, -4.7750, 2.0315},
      {3.4445, -4.7750, 2.0315},
      {3.4445, -4.7750, 2.0315}}},
    {MuonPolynomials::polar_express,
     1.02,
     1e-6,
     {{8.156554524902461, -22.48329292557795, 15.878769915207462},
      {4.042929935166739, -2.808917465908714, 0.5000178451051316},
      {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
      {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
      {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}}};

// What the singular value with this ratio to the divisor becomes.
double value_at_the_end(const Polynomials& p, double s) {
  for (const auto& [a, b, c] : p.abc) s = s * (a + s * s * (b + s * s * c));
  return s;
}

DoubleMatrix orthogonal(const Polynomials& p, const DoubleMatrix& d) {
  const double divisor = p.factor * norm_of(d) + p.eps;
  return with_singular_values(d, [&](double s) { return value_at_the_end(p, s / divisor); });
}

// Bound of the relative distance between the result in type t and the exact one.
//
//   one       relative error of a term of a step, which is rounded 4 times on its way: x x', its
//             multiple, the sum b x x' + c (x x')^2 and the result. Two sums, over the long side
//             and the short side, are in the wide type.
//   terms     size of the terms a x, b x^3 and c x^5 of a step, relative to their sum
//   growth    by the oracle, of a relative change of all elements of d; later changes grow less
//
// The steps' errors are independent of each other, so that their squares add.
double error_bound(const Polynomials& p, const DoubleMatrix& d, DType t) {
  const double one = 4 * roundoff(t) + sum_error(t, d.rows, 1) + sum_error(t, d.columns, 1);
  const double divisor = p.factor * norm_of(d) + p.eps;
  auto values = svd_of_tall(d.rows < d.columns ? transposed(d) : d).s;
  for (double& s : values) s /= divisor;
  double squares = 0;
  for (const auto& [a, b, c] : p.abc) {
    double terms = 0, sum = 0;
    for (double& s : values) {
      terms += std::pow(std::abs(a) * s + std::abs(b) * std::pow(s, 3) + c * std::pow(s, 5), 2);
      s = a * s + b * std::pow(s, 3) + c * std::pow(s, 5);
      sum += s * s;
    }
    squares += terms / sum;
  }

  const double share = 1e-6;
  DoubleMatrix changed = d;
  const auto change = random_matrix(d.rows, d.columns, 99, std::sqrt(3.0) * share);
  for (std::size_t i = 0; i < d.x.size(); ++i) changed.x[i] *= 1 + change.x[i];
  const double growth = relative_distance(orthogonal(p, changed), orthogonal(p, d)) / share;
  return one * std::sqrt(squares) * std::max(1.0, growth);
}

class NewtonSchulzTest : public OnBackend {
 protected:
  DoubleMatrix step(const Polynomials& p, const DoubleMatrix& d) {
    const auto x = machine.put(d, type());
    const auto need = newton_schulz_scratch(d.rows, d.columns);
    const FencedScratch compute(machine, type(), need.compute),
        more(machine, wide(type()), need.wide);
    orthogonalize(machine.backend(), newton_schulz(p.set), x.view(), compute.view(), more.view(),
                  SumOrder::any);
    compute.expect_whole();
    more.expect_whole();
    return machine.get(x.view());
  }
  void expect_orthogonal(const char* what, const DoubleMatrix& exact_d) {
    const auto d = rounded(exact_d, type());
    for (const auto& p : polynomials) {
      const double bound = error_bound(p, d, type());
      EXPECT_LE(relative_distance(step(p, d), orthogonal(p, d)), bound)
          << what << ", " << value_names<MuonPolynomials>[static_cast<std::size_t>(p.set)];
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, NewtonSchulzTest, testing::ValuesIn(matrix_cases),
                         name_of_matrix_case);

TEST_P(NewtonSchulzTest, AppliesThePolynomialsToTheSingularValues) {
  expect_orthogonal("wide", random_matrix(13, 40, 1));
  expect_orthogonal("tall", random_matrix(37, 11, 2));
  expect_orthogonal("square", random_matrix(24, 24, 3));
  expect_orthogonal("a row", random_matrix(1, 17, 4));
  expect_orthogonal("a column", random_matrix(19, 1, 5));
  expect_orthogonal("a number", random_matrix(1, 1, 6));
  expect_orthogonal("rank 3", random_matrix(12, 3, 7) * random_matrix(3, 30, 8));
  expect_orthogonal("rank 1", random_matrix(21, 1, 9) * random_matrix(1, 16, 10));
}

TEST_P(NewtonSchulzTest, LeavesZerosAlone) {
  for (const auto& p : polynomials)
    for (const double x : step(p, DoubleMatrix(5, 8)).x) EXPECT_EQ(x, 0);
}

// With ||d|| below eps, the step is a multiple of d that is far from orthogonal.
TEST_P(NewtonSchulzTest, StaysSmallForTinyMatrices) {
  expect_orthogonal("around eps", random_matrix(6, 9, 11, 1e-7));
  for (const auto& p : polynomials) {
    const auto d = rounded(random_matrix(6, 9, 12, 1e-30), type());
    double slope = 1 / p.eps;
    for (const auto& abc : p.abc) slope *= abc[0];
    EXPECT_LE(relative_distance(step(p, d), slope * d), error_bound(p, d, type()));
  }
}

TEST_P(NewtonSchulzTest, TakesLargeMatrices) {
  expect_orthogonal("large", random_matrix(6, 9, 13, 1e17));
}

// The sum of squares overflows in f32. The step is then zero, as with AdamW.
TEST_P(NewtonSchulzTest, TakesNoStepIfTheNormOverflows) {
  const auto huge = random_matrix(6, 9, 14, 1e30);
  if (type() == DType::f64) return expect_orthogonal("huge", huge);
  for (const auto& p : polynomials)
    for (const double x : step(p, huge).x) EXPECT_EQ(x, 0);
}

TEST_P(NewtonSchulzTest, SpreadsANumberThatIsNotFinite) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{4, 7}, {7, 4}, {5, 5}, {1, 6}, {6, 1}};
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()})
    for (const auto& [rows, columns] : sizes)
      for (const auto& p : polynomials) {
        auto d = random_matrix(rows, columns, 15);
        d(rows / 2, columns / 2) = bad;
        const auto o = step(p, d);
        EXPECT_TRUE(std::ranges::none_of(o.x, [](double x) { return std::isfinite(x); }))
            << rows << " x " << columns << " with " << bad;
      }
}

// The claims of newton_schulz.hpp, at 200,000 ratios s / ||d||.
TEST(NewtonSchulz, EndsInTheRangesThatItsHeaderStates) {
  struct {
    MuonPolynomials set;
    double from, least, most;
  } const claims[] = {{MuonPolynomials::jordan, 0.0016, 0.68, 1.21},
                      {MuonPolynomials::jordan, 0.0052, 0.68, 1.14},
                      {MuonPolynomials::polar_express, 0.0011, 0.85, 1.15}};
  for (const auto& claim : claims) {
    const auto method = newton_schulz(claim.set);
    const auto at_the_end = [&](double ratio) {
      double s = ratio / method.factor;
      for (const auto& [a, b, c] : method.steps) s = s * (a + s * s * (b + s * s * c));
      return s;
    };
    double least = 10, most = 0;
    for (int i = 0; i <= 200000; ++i) {
      const double s = at_the_end(std::pow(claim.from, i / 200000.0));
      least = std::min(least, s);
      most = std::max(most, s);
    }
    EXPECT_GE(least, claim.least);
    EXPECT_LE(most, claim.most);
    // The claims leave out nothing: a smaller ratio is outside of the range.
    const double below = at_the_end(0.9 * claim.from);
    EXPECT_TRUE(below < claim.least || below > claim.most) << below;
  }
}

// With squares of the smaller side, whether or not the matrix is transposed.
TEST(NewtonSchulz, CountsTheFlopsOfItsProducts) {
  for (const auto& [rows, columns] : {std::pair{6, 20}, {20, 6}, {9, 9}, {1, 5}, {5, 1}}) {
    Dry dry(roomy_target());
    const matrix_rule::Muon rule{.polynomials = MuonPolynomials::polar_express};
    const auto need = step_scratch(rule, rows, columns);
    const auto empty = [&](std::int64_t n, DType t) {
      return Tensor::empty(dry, {n}, t, MemoryKind::transient);
    };
    const auto x = empty(rows * columns, DType::bf16), compute = empty(need.compute, DType::bf16),
               more = empty(need.wide, DType::f32);
    matrix_step(dry, rule, {.x_MN = x.view().reshaped({rows, columns})}, compute.view(),
                more.view(), SumOrder::any);
    EXPECT_GT(dry.flops(), 0);
    EXPECT_DOUBLE_EQ(dry.flops(), step_flops(rule, rows, columns)) << rows << " x " << columns;
    EXPECT_EQ(dry.race_count(), 0);
  }
}

}  // namespace
}  // namespace trireme
