#include <fmt/format.h>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

enum class Major { rows, columns };
enum class Result { narrow, wide };

struct Product {
  std::int64_t M, N, K;
  Major a = Major::rows, b = Major::rows;
  Result c = Result::narrow;
  Accumulate how = Accumulate::overwrite;
  bool bias = false, gelu = false, slope = false, sums = false;
  std::int64_t padding = 0;  // columns beside each matrix
};

class MatmulContract : public ContractTest {
 protected:
  void check(const Product&);
};
INSTANTIATE_TEST_SUITE_P(Backends, MatmulContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;

// A [rows, columns] view of memory that lies by rows or by columns.
View laid(Lab& lab, std::int64_t rows, std::int64_t columns, Major major, std::int64_t padding,
          std::uint64_t seed) {
  if (major == Major::rows) return lab.random({rows, columns + padding}, seed).slice(1, 0, columns);
  return lab.random({columns, rows + padding}, seed).slice(1, 0, rows).transposed();
}

// Sums of K terms below 1, a bias below 1, what was there below 1. GELU's slope is below 1.13; GELU
// and slope may be taken before or after c is rounded, and have a few roundings of their own.
void MatmulContract::check(const Product& p) {
  const auto what = fmt::format(
      "M {} N {} K {} a by {} b by {} {} {} bias {} gelu {} slope {} sums {} padding {}", p.M, p.N,
      p.K, p.a == Major::rows ? "rows" : "columns", p.b == Major::rows ? "rows" : "columns",
      p.c == Result::wide ? "wide" : "narrow", p.how == Accumulate::add ? "add" : "overwrite",
      p.bias, p.gelu, p.slope, p.sums, p.padding);
  compare(what, [p](Lab& lab) {
    const View a = laid(lab, p.M, p.K, p.a, p.padding, 1);
    const View b = laid(lab, p.K, p.N, p.b, p.padding, 2);
    const Shape whole{p.M, p.N + p.padding};
    const bool add = p.how == Accumulate::add;
    View c;
    if (p.c == Result::wide)
      c = add ? lab.wide_random(whole, 3) : lab.wide_fresh(whole);
    else
      c = add ? lab.random(whole, 3) : lab.fresh(whole);
    Epilogue epilogue;
    if (p.bias) epilogue.bias_N = lab.random({p.N}, 4);
    if (p.gelu) epilogue.activated_MN = lab.fresh({p.M, p.N});
    if (p.slope) epilogue.activated_at_MN = lab.random({p.M, p.N}, 5, 4);
    if (p.sums) epilogue.row_sum_M = add ? lab.wide_random({p.M}, 6) : lab.wide_fresh({p.M});
    lab.backend.put(
        queue,
        kernel::Matmul{
            .c_MN = c.slice(1, 0, p.N), .a_MK = a, .b_KN = b, .how = p.how, .epilogue = epilogue});
    const double terms = static_cast<double>(p.K + 2), u = roundoff(wide(lab.tested));
    double slack = sum_error(lab.tested, p.K + 2, terms);
    // There a product may be rounded before a number below 1 is added to it.
    if (on_device() && lab.tested == DType::bf16 && p.c == Result::narrow && (add || p.bias))
      slack += roundoff(lab.tested) * (lab.largest(c) + 1);
    lab.result("c", c,
               p.slope ? 1.13 * tolerance(lab.tested, terms, slack) + 8 * u * terms : slack);
    if (p.sums) lab.result("sums", epilogue.row_sum_M, sum_error(lab.tested, p.K + 1, terms));
    if (p.gelu) {
      const double largest = lab.largest(c);
      lab.result("gelu", epilogue.activated_MN,
                 1.13 * tolerance(lab.tested, largest, slack) + 8 * u * largest);
    }
  });
}

const std::vector<Product> sizes{{1, 1, 1},     {5, 7, 65},   {33, 129, 7},
                                 {1, 65, 129},  {65, 1, 33},  {33, 65, 768},
                                 {70, 257, 64}, {64, 48, 32}, {96, 128, 200}};

TEST_P(MatmulContract, OfEveryLayout) {
  for (Product p : sizes)
    for (const auto a : {Major::rows, Major::columns})
      for (const auto b : {Major::rows, Major::columns}) {
        p.a = a;
        p.b = b;
        check(p);
      }
}

TEST_P(MatmulContract, Adds) {
  for (Product p : sizes) {
    p.how = Accumulate::add;
    check(p);
  }
}

// dw = dy' x in the wide type, alone and with db, the column sums of dy.
TEST_P(MatmulContract, WidensWeightGradients) {
  for (Product p : sizes)
    for (const auto how : {Accumulate::overwrite, Accumulate::add})
      for (const bool sums : {false, true}) {
        p.c = Result::wide;
        p.a = Major::columns;
        p.how = how;
        p.sums = sums;
        check(p);
      }
}

TEST_P(MatmulContract, BiasAndGelu) {
  for (Product p : sizes) {
    p.b = Major::columns;  // weights are [out, in]
    p.bias = true;
    check(p);
    p.gelu = true;
    check(p);
    p.bias = false;
    check(p);
  }
}

// dz = (dy w) * gelu'(z)
TEST_P(MatmulContract, SlopeOfGelu) {
  for (Product p : sizes) {
    p.slope = true;
    check(p);
  }
}

// Views into wider memory, whose other elements keep their values.
TEST_P(MatmulContract, OfPartsOfMatrices) {
  for (Product p : sizes)
    for (const auto how : {Accumulate::overwrite, Accumulate::add})
      for (const auto b : {Major::rows, Major::columns}) {
        p.padding = 3;
        p.how = how;
        p.b = b;
        check(p);
      }
}

// Many more terms than a block of any backend.
TEST_P(MatmulContract, OfLongSums) {
  check({17, 33, 5000});
  check({17, 33, 5000, Major::columns, Major::rows, Result::wide, Accumulate::add});
}

// Into the wide type, from a matrix that lies by rows: a router's logits.
TEST_P(MatmulContract, WideRowsByThemselves) {
  for (const std::int64_t M : {1, 3, 8, 37})
    compare(fmt::format("M {}", M), [M](Lab& lab) {
      const std::int64_t N = 65, K = 77;
      const View a = lab.random({M, K}, 1), b = lab.random({K, N}, 2);
      const auto multiply_rows = [&](std::int64_t first, std::int64_t rows) {
        const View c = lab.wide_fresh({rows, N});
        lab.backend.put(
            queue,
            kernel::Matmul{
                .c_MN = c, .a_MK = a.slice(0, first, rows), .b_KN = b, .order = SumOrder::by_row});
        return c;
      };
      const View all = multiply_rows(0, M);
      for (std::int64_t m = 0; m < M; ++m)
        EXPECT_EQ(lab.bytes(multiply_rows(m, 1)), lab.bytes(all.slice(0, m, 1)));
      lab.result("c", all, sum_error(lab.tested, K, static_cast<double>(K)));
    });
}

}  // namespace
}  // namespace trireme
