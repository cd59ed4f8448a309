// Matrices in fp8: numbers that are rounded by hand, special values, bits of every backend, and
// products against sums of exact products in double.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/fp8.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Rounded {
  std::vector<std::uint8_t> codes;
  std::vector<double> scales;
  std::vector<std::byte> bytes;
};

double number_of(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double x =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code < 128 ? x : -x;
}

class Fp8Contract : public ContractTest {
 protected:
  static fp8::Matrix<View> room(Lab& lab, fp8::Scales scales, std::int64_t rows,
                                std::int64_t columns) {
    const auto code = fp8::code_shape(rows, columns);
    const std::vector<std::int32_t> sevens(static_cast<std::size_t>(code.count()), 0x07070707);
    const auto scale = fp8::scale_shape(scales, rows, columns);
    const std::vector<double> nans(static_cast<std::size_t>(scale.count()), nan);
    return {lab.ids(sevens).reshaped(code), lab.of_type(DType::f32, scale, nans), scales};
  }
  static fp8::Matrix<View> rounded(Lab& lab, fp8::Scales scales, const ConstView& x_RK) {
    auto y = room(lab, scales, x_RK.extent[0], x_RK.extent[1]);
    lab.backend.put(Queue::compute, kernel::RoundToFp8{.y = y, .x_RK = x_RK});
    return y;
  }
  static Rounded read(Lab& lab, const fp8::Matrix<View>& y) {
    Rounded r;
    r.bytes = lab.bytes(y.code_RW);
    for (const auto b : r.bytes) r.codes.push_back(static_cast<std::uint8_t>(b));
    r.scales = lab.read(y.scale);
    const auto more = lab.bytes(y.scale);
    r.bytes.insert(r.bytes.end(), more.begin(), more.end());
    return r;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Fp8Contract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// 448 is the largest number with a scale of 1. 17 lies between the neighbours 16 and 18, and 19
// between 18 and 20: ties go to the even mantissa. Numbers below 2^-6 are multiples of 2^-9.
TEST_P(Fp8Contract, RoundsToTheNearestByHand) {
  run([](Lab& lab) {
    const auto y = read(lab, rounded(lab, fp8::Scales::rows,
                                     lab.values({1, 12}, {448, 1, -1, 17, 19, 0x1p-6, 0x1p-9,
                                                          0x3p-11, 0x1p-10, 0, -0x1p-9, -240})));
    EXPECT_EQ(y.scales[0], 1);
    const std::vector<std::uint8_t> want{0x7e, 0x38, 0xb8, 0x58, 0x5a, 0x08,
                                         0x01, 0x01, 0x00, 0x00, 0x81, 0xf7};
    EXPECT_EQ(std::vector(y.codes.begin(), y.codes.begin() + 12), want);
    EXPECT_THAT(std::vector(y.codes.begin() + 12, y.codes.end()), testing::Each(0));
  });
}

// The smallest powers of two for which the largest number becomes at most 448 = 1.75 * 2^8.
TEST_P(Fp8Contract, ScalesArePowersOfTwo) {
  run([](Lab& lab) {
    const std::vector<double> largest{448,       450,       512, 1.75,    1.765625,
                                      0x1.cp-40, 0x1.dp-40, 0,   0x1p-120};
    const std::vector<double> want{1, 2, 2, 0x1p-8, 0x1p-7, 0x1p-48, 0x1p-47, 0x1p-116, 0x1p-116};
    const auto n = std::ssize(largest);
    const auto y = read(lab, rounded(lab, fp8::Scales::rows, lab.values({n, 1}, largest)));
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(y.scales[i], want[i]) << largest[i];
  });
}

TEST_P(Fp8Contract, AGroupWithANumberThatIsNotFiniteIsNaN) {
  for (const double bad : {nan, infinity, -infinity})
    run([&](Lab& lab) {
      std::vector<double> x(2 * 130, 1);
      x[129] = bad;
      const auto y = read(lab, rounded(lab, fp8::Scales::rows, lab.values({2, 130}, x)));
      EXPECT_TRUE(std::isnan(y.scales[4])) << "row 0, columns 128 and 129";
      for (const std::size_t finite : {0U, 1U, 5U}) EXPECT_EQ(y.scales[finite], 0x1p-8);
    });
}

// A tile takes the largest of 128 rows and 128 columns.
TEST_P(Fp8Contract, TilesShareTheLargest) {
  run([](Lab& lab) {
    std::vector<double> x(130 * 129, 1);
    x[127 * 129 + 127] = 448;
    x[128 * 129 + 5] = 900;
    const auto y = read(lab, rounded(lab, fp8::Scales::tiles, lab.values({130, 129}, x)));
    EXPECT_EQ(y.scales[0], 1);
    EXPECT_EQ(y.scales[1], 0x1p-8);
    EXPECT_EQ(y.scales[4], 4);
    EXPECT_EQ(y.scales[5], 0x1p-8);
    EXPECT_EQ(y.codes[0], 0x38);          // 1
    EXPECT_EQ(y.codes[128 * 256], 0x28);  // 1 / 4
  });
}

TEST_P(Fp8Contract, HasTheSameBitsEverywhere) {
  for (const auto scales : {fp8::Scales::rows, fp8::Scales::tiles})
    for (const bool transposed : {false, true})
      for (const double amplitude : {1.0, 3e-30, 2e38}) {
        const auto body = [&](std::vector<std::byte>& bytes) {
          return [&](Lab& lab) {
            const View x = transposed ? lab.random({200, 133}, 7, amplitude).transposed()
                                      : lab.random({133, 200}, 7, amplitude);
            bytes = read(lab, rounded(lab, scales, x)).bytes;
          };
        };
        std::vector<std::byte> want, got;
        oracle(body(want));
        run(body(got));
        EXPECT_TRUE(got == want) << transposed << ' ' << amplitude;
      }
}

// The transpose of a weight has the same codes.
TEST_P(Fp8Contract, TilesOfATransposeAreTheTransposedTiles) {
  run([](Lab& lab) {
    const View x = lab.random({256, 128}, 3);
    const auto a = read(lab, rounded(lab, fp8::Scales::tiles, x)),
               b = read(lab, rounded(lab, fp8::Scales::tiles, x.transposed()));
    for (std::size_t r = 0; r < 256; ++r)
      for (std::size_t c = 0; c < 128; ++c) ASSERT_EQ(a.codes[r * 128 + c], b.codes[c * 256 + r]);
    EXPECT_EQ(a.scales[0], b.scales[0]);
    EXPECT_EQ(a.scales[4], b.scales[1]);
  });
}

// What several ranks hold of a matrix [R, K], by the first element of each.
std::vector<std::int64_t> parts(std::int64_t R, std::int64_t K) {
  return {0, 4, 127 * K + 8, 128 * K, 200 * K + 132, R * K};
}

struct Encoded {
  std::vector<std::uint8_t> codes;
  std::vector<double> scales, decoded;
};

// The matrix as its parts encode it, and what all decode.
Encoded encoded_in_parts(Lab& lab, const View& x) {
  const auto R = x.extent[0], K = x.extent[1], G = fp8::scale_shape(fp8::Scales::tiles, R, K)[1];
  const auto ends = parts(R, K);
  const auto ranks = std::ssize(ends) - 1;
  const View flat = x.reshaped({R * K});
  const std::int64_t W = 3 * G;  // of the longest part, with its first and its last row of tiles
  const View largest = lab.ids(std::vector<std::int32_t>(static_cast<std::size_t>(ranks * W), 0))
                           .reshaped({ranks, W});
  std::vector<std::int32_t> first;
  const auto part = [&](std::int64_t r) {
    const auto begin = ends[static_cast<std::size_t>(r)];
    return flat.slice(0, begin, ends[static_cast<std::size_t>(r) + 1] - begin);
  };
  const auto bands = [&](std::int64_t r) {
    return fp8::bands_of(ends[static_cast<std::size_t>(r)], part(r).count(), K);
  };
  for (std::int64_t r = 0; r < ranks; ++r) {
    first.push_back(static_cast<std::int32_t>(bands(r).begin * G));
    lab.backend.put(Queue::compute,
                    kernel::LargestOfTiles{.largest_IG = largest.slice(0, r, 1)
                                                             .slice(1, 0, bands(r).count() * G)
                                                             .reshaped({bands(r).count(), G}),
                                           .x_N = part(r),
                                           .first = ends[static_cast<std::size_t>(r)],
                                           .columns = K});
  }
  const auto tiles = fp8::scale_shape(fp8::Scales::tiles, R, K);
  const View scales = lab.of_type(
      DType::f32, tiles, std::vector<double>(static_cast<std::size_t>(tiles.count()), nan));
  lab.backend.put(Queue::compute, kernel::ScalesOfTiles{.scale_T = scales.reshaped({tiles.count()}),
                                                        .largest_RW = largest,
                                                        .first_R = lab.ids(first)});
  const View codes = lab.ids(
      std::vector<std::int32_t>(static_cast<std::size_t>(fp8::words_of(R * K)), 0x07070707));
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto begin = ends[static_cast<std::size_t>(r)];
    lab.backend.put(
        Queue::compute,
        kernel::EncodeTiles{.code_W = codes.slice(0, begin / 4, fp8::words_of(part(r).count())),
                            .x_N = part(r),
                            .scale_IG = scales.slice(0, bands(r).begin, bands(r).count()),
                            .first = begin,
                            .columns = K});
  }
  const View y = lab.fresh({R, K});
  lab.backend.put(Queue::compute, kernel::DecodeTiles{.y_N = y.reshaped({R * K}),
                                                      .code_W = codes,
                                                      .scale_IG = scales,
                                                      .first = 0,
                                                      .columns = K});
  Encoded all{{}, lab.read(scales), lab.read(y)};
  for (const auto b : lab.bytes(codes)) all.codes.push_back(static_cast<std::uint8_t>(b));
  return all;
}

// Parts that cut rows and tiles have the codes and scales of the whole matrix, and what they decode
// to is rounded to the same numbers again. 228 / 256 becomes 224 / 256, whose scale is half as
// large.
TEST_P(Fp8Contract, PartsOfAMatrixHaveTheCodesOfTheWhole) {
  constexpr std::int64_t R = 260, K = 300;
  for (const double amplitude : {1.0, 3e-30, 1e-37})
    run([&](Lab& lab) {
      std::vector<double> numbers = lab.read(lab.random({R, K}, 7, amplitude));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (i / K < 128 && i % K < 128) numbers[i] = i == 5 ? amplitude * 228 / 256 : 0;
      const View x = lab.values({R, K}, numbers);
      const auto whole = read(lab, rounded(lab, fp8::Scales::tiles, x));
      const auto parts = encoded_in_parts(lab, x);
      EXPECT_EQ(parts.scales, whole.scales);
      const View decoded = lab.values({R, K}, parts.decoded);
      const auto again = read(lab, rounded(lab, fp8::Scales::tiles, decoded));
      const auto padded = fp8::groups(K) * fp8::group;
      const auto G = fp8::scale_shape(fp8::Scales::tiles, R, K)[1];
      for (std::int64_t r = 0; r < R; ++r)
        for (std::int64_t k = 0; k < K; ++k) {
          const auto at = static_cast<std::size_t>(r * padded + k),
                     i = static_cast<std::size_t>(r * K + k),
                     tile = static_cast<std::size_t>(r / 128 * G + k / 128);
          ASSERT_EQ(parts.codes[i], whole.codes[at]) << r << ' ' << k;
          ASSERT_EQ(parts.decoded[i], number_of(whole.codes[at]) * whole.scales[tile]);
          ASSERT_EQ(parts.decoded[i], number_of(again.codes[at]) * again.scales[tile]);
        }
    });
}

// As in RoundToFp8, all numbers of the tile become NaN, on whichever rank one of them is not
// finite.
TEST_P(Fp8Contract, APartWithANumberThatIsNotFiniteMakesTheTileNaN) {
  constexpr std::int64_t R = 260, K = 300;
  for (const double bad : {nan, infinity, -infinity})
    run([&](Lab& lab) {
      std::vector<double> numbers(R * K, 1);
      numbers[100] = bad;  // in the second part; the third has rows of the tile, too
      const auto parts = encoded_in_parts(lab, lab.values({R, K}, numbers));
      for (std::int64_t r = 0; r < R; ++r)
        for (std::int64_t k = 0; k < K; ++k)
          ASSERT_EQ(std::isnan(parts.decoded[static_cast<std::size_t>(r * K + k)]),
                    r < 128 && k < 128);
    });
}

TEST_P(Fp8Contract, ProductsAreSumsOfExactProducts) {
  constexpr std::int64_t M = 32, N = 144, K = 336;
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    for (const auto scales : {fp8::Scales::rows, fp8::Scales::tiles})
      run([&](Lab& lab) {
        if (!lab.backend.properties().fp8) return;
        const auto a = rounded(lab, fp8::Scales::rows, lab.random({M, K}, 1)),
                   b = rounded(lab, scales, lab.random({N, K}, 2, 0.02));
        const View c = lab.wide_random({M, N}, 5);
        const auto before = lab.read(c);
        lab.backend.put(Queue::compute, kernel::Fp8Matmul{.c_MN = c,
                                                          .a_MK = {a.code_RW, a.scale, a.scales},
                                                          .b_NK = {b.code_RW, b.scale, b.scales},
                                                          .how = how});
        const auto got = lab.read(c);
        const auto at = read(lab, a), bt = read(lab, b);
        const auto columns = a.columns(), padded = b.scale.extent[1];
        for (std::int64_t m = 0; m < M; ++m)
          for (std::int64_t n = 0; n < N; ++n) {
            double sum = 0, magnitude = 0;
            for (std::int64_t k = 0; k < K; ++k) {
              const auto g = k / 128;
              const double x = number_of(at.codes[static_cast<std::size_t>(m * columns + k)]) *
                               at.scales[static_cast<std::size_t>(g * M + m)];
              const double y = number_of(bt.codes[static_cast<std::size_t>(n * columns + k)]) *
                               bt.scales[static_cast<std::size_t>(
                                   scales == fp8::Scales::rows ? g * N + n : n / 128 * padded + g)];
              sum += x * y;
              magnitude += std::fabs(x * y);
            }
            const auto i = static_cast<std::size_t>(m * N + n);
            if (how == Accumulate::add) sum += before[i];
            // A GPU may keep only 14 bits of sums of 128 products.
            const double slack = on_device() ? 0x1p-13 * (magnitude + 1)
                                             : sum_error(DType::f32, K + 1, magnitude + 1);
            EXPECT_NEAR(got[i], sum, tolerance(DType::f32, sum, slack)) << m << ' ' << n;
          }
      });
}

}  // namespace
}  // namespace trireme
