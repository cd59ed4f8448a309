// host::matmul against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/host/kernels.hpp"
#include "kernels/host/onednn.hpp"
#include "tests/kernels/matrix.hpp"

namespace trireme {
namespace {

struct Case {
  std::int64_t M, N, K;
  Major a = Major::rows, b = Major::rows, c = Major::rows;
  DType in = DType::f32, out = DType::f32;
  Accumulate how = Accumulate::overwrite;
  bool bias = false;
  std::int64_t padding = 0;
  std::size_t scratch_bytes = 16U << 20;
};

// |error| <= (K + 2) u32 sum |a b| for a sum of K products in any order (Higham, Accuracy and
// Stability, 3.1), plus half an ulp of what was rounded to the result's type, once or, when the
// product is added to what lies there, twice.
void check(const Case& t) {
  PaddedMatrix a(t.M, t.K, t.in, t.a, t.padding, 1), b(t.K, t.N, t.in, t.b, 2 * t.padding, 2),
      c(t.M, t.N, t.out, t.c, t.padding, 3), bias(1, t.N, t.out, Major::rows, 0, 4);
  const PaddedMatrix before = c;
  Epilogue epilogue;
  if (t.bias) epilogue.bias_N = ConstView(bias.view()).reshaped({t.N});
  host::run(
      kernel::Matmul{
          .c_MN = c.view(), .a_MK = a.view(), .b_KN = b.view(), .how = t.how, .epilogue = epilogue},
      scratch_of(t.scratch_bytes));

  const bool add = t.how == Accumulate::add;
  const double u32 = std::ldexp(1.0, -24);
  const double rounding = t.out == DType::bf16 ? 2 * std::ldexp(1.0, -8) : 0.0;
  for (std::int64_t i = 0; i < t.M; ++i) {
    for (std::int64_t j = 0; j < t.N; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < t.K; ++k) {
        const double p = a.at(i, k) * b.at(k, j);
        sum += p;
        size += std::abs(p);
      }
      if (t.bias) sum += bias.at(0, j), size += std::abs(bias.at(0, j));
      const double product = sum;
      if (add) sum += before.at(i, j), size += std::abs(before.at(i, j));
      const double tolerance = static_cast<double>(t.K + 3) * u32 * size +
                               rounding * (std::abs(sum) + (add ? std::abs(product) : 0));
      ASSERT_NEAR(c.at(i, j), sum, tolerance)
          << "[" << t.M << "," << t.N << "," << t.K << "] element " << i << "," << j << " of "
          << name_of(t.in) << " -> " << name_of(t.out);
    }
  }
  // What lies between the rows is not touched.
  const auto& cv = c.view();
  const auto inner = t.c == Major::rows ? t.N : t.M, outer = t.c == Major::rows ? t.M : t.N;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = inner; i < inner + t.padding; ++i) {
      const auto at = o * (t.c == Major::rows ? cv.stride[0] : cv.stride[1]) + i;
      ASSERT_EQ(c.load(at), before.load(at)) << "padding after line " << o;
    }
  }
}

TEST(Matmul, EveryLayoutTypeAndAccumulate) {
  for (auto [in, out] : types) {
    for (auto how : {Accumulate::overwrite, Accumulate::add}) {
      for (int layout = 0; layout < 8; ++layout) {
        for (std::int64_t padding : {0, 5}) {
          const auto major = [&](int bit) {
            return layout >> bit & 1 ? Major::columns : Major::rows;
          };
          check({37, 53, 71, major(0), major(1), major(2), in, out, how, false, padding});
        }
      }
    }
  }
}

TEST(Matmul, OddSizes) {
  for (auto [in, out] : types) {
    for (std::int64_t M : {1, 3, 129}) {
      for (std::int64_t N : {1, 17, 66}) {
        for (std::int64_t K : {1, 2, 33}) {
          check({M, N, K, Major::rows, Major::columns, Major::rows, in, out});
          check({M, N, K, Major::columns, Major::rows, Major::rows, in, out, Accumulate::add});
          check({M, N, K, Major::rows, Major::rows, Major::columns, in, out});
        }
      }
    }
  }
}

// Larger than a block, in each dim.
TEST(Matmul, ManyBlocks) {
  for (auto [in, out] : types) {
    check({1090, 67, 130, Major::columns, Major::rows, Major::rows, in, out, Accumulate::add});
    check({67, 1090, 130, Major::rows, Major::columns, Major::rows, in, out});
    check({67, 71, 2200, Major::rows, Major::rows, Major::rows, in, out, Accumulate::add});
    check({1100, 1040, 33, Major::columns, Major::rows, Major::rows, in, out});
  }
}

TEST(Matmul, Bias) {
  for (auto t : {DType::f32, DType::bf16}) {
    for (auto how : {Accumulate::overwrite, Accumulate::add}) {
      check({45, 67, 31, Major::rows, Major::columns, Major::rows, t, t, how, true});
      check({45, 67, 31, Major::rows, Major::rows, Major::rows, t, t, how, true, 3});
    }
  }
}

// The pre-activation stays in c; the tanh form in double is the reference.
TEST(Matmul, Gelu) {
  for (auto t : {DType::f32, DType::bf16}) {
    PaddedMatrix a(13, 40, t, Major::rows, 0, 1), b(40, 29, t, Major::columns, 0, 2),
        c(13, 29, t, Major::rows, 0, 3), plain = c, activated(13, 29, t, Major::rows, 0, 4);
    PaddedMatrix reference(13, 29, t, Major::rows, 0, 3);
    host::run(kernel::Matmul{.c_MN = reference.view(), .a_MK = a.view(), .b_KN = b.view()},
              scratch_of());
    Epilogue epilogue;
    epilogue.activated_MN = activated.view();
    host::run(
        kernel::Matmul{.c_MN = c.view(), .a_MK = a.view(), .b_KN = b.view(), .epilogue = epilogue},
        scratch_of());
    EXPECT_EQ(c.bytes(), reference.bytes());
    // A few ulp of the result, and of x where tanh nears -1 and the result is a difference.
    const double u = t == DType::bf16 ? std::ldexp(1.0, -8) : std::ldexp(1.0, -22);
    for (std::int64_t i = 0; i < 13; ++i) {
      for (std::int64_t j = 0; j < 29; ++j) {
        const double x = c.at(i, j);
        const double y =
            0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        EXPECT_NEAR(activated.at(i, j), y, u * (std::abs(y) + std::ldexp(std::abs(x), -6)));
      }
    }
  }
}

TEST(Matmul, SameBitsAgain) {
  for (auto [in, out] : types) {
    for (auto b_major : {Major::rows, Major::columns}) {
      PaddedMatrix a(130, 700, in, Major::rows, 0, 1), b(700, 190, in, b_major, 0, 2),
          c(130, 190, out, Major::rows, 0, 3), d(130, 190, out, Major::rows, 0, 5);
      host::run(kernel::Matmul{.c_MN = c.view(), .a_MK = a.view(), .b_KN = b.view()}, scratch_of());
      host::run(kernel::Matmul{.c_MN = d.view(), .a_MK = a.view(), .b_KN = b.view()}, scratch_of());
      EXPECT_EQ(c.bytes(), d.bytes());
    }
  }
}

// A token's row has the same bits in any company, where oneDNN has AVX-512.
TEST(Matmul, RowsDoNotDependOnTheirNumber) {
  if (!host::onednn::same_in_every_place())
    GTEST_SKIP() << "this processor's products round a row by its place among others";
  for (auto b_major : {Major::rows, Major::columns}) {
    constexpr std::int64_t M = 130, N = 384, K = 512;
    const PaddedMatrix a(M, K, DType::f32, Major::rows, 0, 1), b(K, N, DType::f32, b_major, 0, 2),
        all(M, N, DType::f32, Major::rows, 0, 3), some(M, N, DType::f32, Major::rows, 0, 4);
    host::run(kernel::Matmul{.c_MN = all.view(), .a_MK = a.view(), .b_KN = b.view()}, scratch_of());
    for (std::int64_t m : {2, 3, 7, 16, 64, 129}) {
      host::run(kernel::Matmul{.c_MN = some.view().slice(0, 0, m),
                               .a_MK = a.view().slice(0, M - m, m),
                               .b_KN = b.view()},
                scratch_of());
      const auto bytes = static_cast<std::size_t>(m * N) * sizeof(float);
      EXPECT_EQ(0, std::memcmp(some.view().data, all.view().slice(0, M - m, m).data, bytes))
          << m << " rows";
    }
  }
}

// The primitive on bf16 itself, which host::matmul takes where it is the faster one.
TEST(Matmul, NativeBf16) {
  if (!host::bf16_products()) GTEST_SKIP() << "oneDNN has no bf16 product on this processor";
  constexpr std::int64_t M = 33, N = 70, K = 90;
  for (auto out : {DType::bf16, DType::f32}) {
    for (auto a_major : {Major::rows, Major::columns}) {
      const PaddedMatrix a(M, K, DType::bf16, a_major, 0, 1),
          b(K, N, DType::bf16, Major::columns, 0, 2);
      const PaddedMatrix c(M, N, out, Major::rows, 0, 3), before = c;
      host::onednn::matmul({c.view(), a.view(), b.view(), Accumulate::add}, scratch_of());
      for (std::int64_t i = 0; i < M; ++i) {
        for (std::int64_t j = 0; j < N; ++j) {
          double sum = before.at(i, j), size = std::abs(sum);
          for (std::int64_t k = 0; k < K; ++k) {
            sum += a.at(i, k) * b.at(k, j);
            size += std::abs(a.at(i, k) * b.at(k, j));
          }
          const double rounding = out == DType::bf16 ? std::ldexp(1.0, -8) : 0.0;
          ASSERT_NEAR(c.at(i, j), sum, (K + 3) * std::ldexp(size, -24) + rounding * std::abs(sum));
        }
      }
    }
  }
}

// A tall result wants more scratch than it gets and is cut.
TEST(Matmul, LittleScratch) {
  const PaddedMatrix a(2050, 64, DType::f32, Major::columns, 0, 1),
      b(64, 600, DType::f32, Major::rows, 0, 2), c(2050, 600, DType::f32, Major::rows, 0, 3);
  const auto wanted = host::onednn::matmul_scratch({c.view(), a.view(), b.view()});
  check({2050, 600, 64, Major::columns, Major::rows, Major::rows, DType::f32, DType::f32,
         Accumulate::overwrite, false, 0, wanted * 3 / 4});
}

TEST(Matmul, NothingToAdd) {
  check({5, 7, 0});
  check({5, 7, 0, Major::rows, Major::rows, Major::rows, DType::f32, DType::f32, Accumulate::add});
  check({0, 7, 3});
  check({5, 0, 3});
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  const PaddedMatrix a(4, 5, DType::f32, Major::rows, 0, 1), b(6, 7, DType::f32, Major::rows, 0, 2),
      c(4, 7, DType::f32, Major::rows, 0, 3), half(5, 7, DType::bf16, Major::rows, 0, 4);
  const auto run = [&](const View& x, const View& y) {
    host::run(kernel::Matmul{.c_MN = c.view(), .a_MK = x, .b_KN = y}, scratch_of());
  };
  EXPECT_THROW(run(a.view(), b.view()), Error);
  EXPECT_THROW(run(a.view(), half.view()), Error);
  auto gaps = b.view().slice(0, 0, 5);
  gaps.stride = {14, 2};
  EXPECT_THROW(run(a.view(), gaps), Error);
}

}  // namespace
}  // namespace trireme
