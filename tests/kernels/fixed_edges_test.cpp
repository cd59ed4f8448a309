// Counts of quanta at their edges, on host and ref alike.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/base/fixed.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr auto top = std::numeric_limits<std::int64_t>::max(),
               bottom = std::numeric_limits<std::int64_t>::min();

template <class T>
View view_of(const std::vector<T>& v) {
  return View(reinterpret_cast<std::byte*>(const_cast<T*>(v.data())), dtype_of<T>,
              {static_cast<std::int64_t>(v.size())});
}

class FixedEdges : public testing::TestWithParam<const char*> {
 protected:
  std::vector<std::int64_t> sums(const std::vector<std::vector<float>>& leaves) {
    std::vector<std::int64_t> sum(leaves[0].size(), 77);
    for (std::size_t i = 0; i < leaves.size(); ++i)
      backend->put(Queue::compute,
                   kernel::AddFixed{.sum_N = view_of(sum),
                                    .how = i > 0 ? Accumulate::add : Accumulate::overwrite,
                                    .x_N = view_of(leaves[i]),
                                    .largest = view_of(largest)});
    return sum;
  }
  fixed::Int128 squares(const std::vector<std::int64_t>& counts) {
    std::vector<double> limbs(fixed::limbs);
    backend->put(Queue::compute,
                 kernel::SumSquares{.out_N = view_of(limbs), .x = {view_of(counts)}});
    return fixed::of_limbs(std::span(limbs).first<fixed::limbs>());
  }

  std::unique_ptr<Backend> backend = open_backend({.name = GetParam(), .threads = 2});
  Workspace scratch{*backend};
  std::vector<float> largest{0};
};
INSTANTIATE_TEST_SUITE_P(On, FixedEdges, testing::Values("host", "ref"),
                         [](const auto& p) { return std::string(p.param); });

// What was counted comes back, unless so many terms may not have fitted.
TEST_P(FixedEdges, SumsAreReadBack) {
  const std::vector<std::int64_t> sum{0, 3LL << 50, -(5LL << 40), 1};
  std::vector<float> y(sum.size(), 7);
  const auto read = [&](double terms, float most) {
    largest[0] = most;
    View to = view_of(y), from = view_of(sum);
    backend->put(Queue::compute, kernel::ReadFixed{.y_BTHD = to.reshaped({1, 1, 2, 2}),
                                                   .sum_BTHD = from.reshaped({1, 1, 2, 2}),
                                                   .largest = view_of(largest),
                                                   .terms = terms,
                                                   .shift = 2});
  };
  read(4, 2047);
  EXPECT_EQ(y, (std::vector<float>{0, 0.75F, -0x5p-12F, 0x1p-52F}));
  for (const auto& [terms, most] : {std::pair{4.0, 2048.0F}, {1.0, infinity}}) {
    read(terms, most);
    for (const float x : y) EXPECT_TRUE(std::isnan(x));
  }
}

// Alone, and as one of many, which a vector takes.
TEST_P(FixedEdges, ALeafAtAnEdge) {
  constexpr float subnormal = 1e-40F, below = 0x1.fffffep12F;
  struct Leaf {
    float x;
    std::int64_t count;
    float largest;
  };
  for (const auto& [x, count, most] :
       std::vector<Leaf>{{-0.0F, 0, 0},
                         {0x1p-51F, 0, 0x1p-51F},
                         {-0x1.8p-51F, -1, 0x1.8p-51F},
                         {0x1p-50F, 1, 0x1p-50F},
                         {below, top - (std::int64_t{1} << 39) + 1, below},
                         {-below, bottom + (std::int64_t{1} << 39), below},
                         {0x1p13F, 0, 0x1p13F},
                         {-0x1p13F, 0, 0x1p13F},
                         {infinity, 0, infinity},
                         {-infinity, 0, infinity},
                         {std::nanf(""), 0, infinity}})
    for (const std::size_t n : {1U, 16U, 37U})
      for (const std::size_t at : {std::size_t{0}, n - 1}) {
        std::vector<float> leaf(n, 0.0F);
        std::vector<std::int64_t> expected(n, 0);
        leaf[at] = x;
        expected[at] = count;
        largest = {0};
        EXPECT_EQ(sums({leaf}), expected) << x << " at " << at << " of " << n;
        EXPECT_EQ(largest[0], most) << x << " at " << at << " of " << n;
      }
  // Less than half a quantum; whether it is taken for 0 before or after is the machine's.
  largest = {0};
  EXPECT_EQ(sums({{subnormal, -subnormal}}), (std::vector<std::int64_t>{0, 0}));
  EXPECT_LT(largest[0], infinity);
}

// What was largest stays so, and NaN cannot be forgotten.
TEST_P(FixedEdges, TheLargestOfSeveralLeaves) {
  sums({{1, -3}, {2, 0.5F}});
  EXPECT_EQ(largest[0], 3);
  sums({{std::nanf(""), 1}, {1, 1}, {-2, 2}});
  EXPECT_EQ(largest[0], infinity);
}

TEST_P(FixedEdges, SumsAtTheEdgeOf64Bits) {
  const float half = 0x1p12F, below = 0x1.fffffep11F;  // 2^62 quanta, and 2^38 less
  const std::int64_t gap = std::int64_t{1} << 38;
  // The last that fit on both sides, the first that does not, and one that comes back.
  EXPECT_EQ(sums({{half, -half}, {below, -half}}), (std::vector{top - gap + 1, bottom}));
  EXPECT_EQ(sums({{half, -half}, {half, -half}, {0, -0x1p-50F}}), (std::vector{bottom, top}));
  EXPECT_EQ(sums({{half, -half}, {half, -half}, {half, -half}, {-half, half}, {-half, half}}),
            (std::vector{std::int64_t{1} << 62, -(std::int64_t{1} << 62)}));
}

// A square is at most 2^122: 31 and its last bits fit below 2^127, 32 do not.
TEST_P(FixedEdges, SquaresAtTheEdgeOf128Bits) {
  const auto square = fixed::Int128{1} << 122;
  std::vector<std::int64_t> counts(31, bottom);
  EXPECT_TRUE(squares(counts) == 31 * square);
  counts.push_back(top);
  EXPECT_TRUE(squares(counts) == 31 * square + ((static_cast<fixed::Int128>(top) * top) >> 4));
  counts.back() = bottom;
  EXPECT_TRUE(squares(counts) == fixed::most);
  counts.resize(5000, bottom);  // would have wrapped often
  EXPECT_TRUE(squares(counts) == fixed::most);
  EXPECT_TRUE(squares({3, -3, 4, -4, 0}) == 2);
}

}  // namespace
}  // namespace trireme
