// The moved results of products against the scatter of sums in f32 over orders of their terms.
#include "kernels/rounding/rounding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/ref/ref.hpp"

namespace trireme {
namespace {

template <class T>
View view_of(std::vector<T>& v, const Shape& s) {
  return {reinterpret_cast<std::byte*>(v.data()), dtype_of<T>, s};
}

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (auto& v : x) v = normal(random);
  return x;
}

constexpr std::int64_t M = 5, N = 6, K = 300;

std::vector<float> product(Backend& b, std::vector<float>& a, std::vector<float>& w) {
  std::vector<float> c(M * N);
  b.put(Queue::compute,
        kernel::Matmul{
            .c_MN = view_of(c, {M, N}), .a_MK = view_of(a, {M, K}), .b_KN = view_of(w, {K, N})});
  return c;
}

// Root of the mean square of what many draws differ from `center` by.
double scatter(const std::vector<float>& center, int draws, auto&& draw) {
  double squares = 0;
  for (int r = 0; r < draws; ++r) {
    const auto x = draw(r);
    for (std::size_t i = 0; i < x.size(); ++i) squares += std::pow(double(x[i]) - center[i], 2);
  }
  return std::sqrt(squares / draws / static_cast<double>(center.size()));
}

// A sum of K terms has no more than a few percent of relative scatter in its mean square after 40
// draws of 30 elements: 1200 numbers, 1 / sqrt(2 x 1200) = 2%. The model itself takes signs for
// random and roundings for uniform: it is held within 1.5.
TEST(Rounding, MovesAProductAsOtherOrdersOfItsTermsWould) {
  auto a = random_floats(M * K, 1), w = random_floats(K * N, 2);
  Ref ref;
  const auto center = product(ref, a, w);
  std::mt19937_64 random(3);
  std::vector<std::size_t> order(K);
  std::iota(order.begin(), order.end(), std::size_t{0});

  const double other_orders = scatter(center, 40, [&](int) {
    std::ranges::shuffle(order, random);
    std::vector<float> c(M * N, 0);
    for (std::size_t m = 0; m < M; ++m)
      for (std::size_t n = 0; n < N; ++n)
        for (const auto k : order) c[m * N + n] += a[m * K + k] * w[k * N + n];
    return c;
  });
  const double moved = scatter(center, 40, [&](int r) {
    Rounding rounding(std::make_unique<Ref>(), static_cast<std::uint64_t>(r));
    return product(rounding, a, w);
  });
  EXPECT_GT(moved, other_orders / 1.5);
  EXPECT_LT(moved, other_orders * 1.5);
}

TEST(Rounding, DrawsTheSameForASeedAndLeavesCopiesAlone) {
  auto a = random_floats(M * K, 1), w = random_floats(K * N, 2);
  const auto of_seed = [&](std::uint64_t seed) {
    Rounding rounding(std::make_unique<Ref>(), seed);
    return product(rounding, a, w);
  };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1), of_seed(2));

  Rounding rounding(std::make_unique<Ref>(), 1);
  std::vector<float> b(a.size());
  rounding.put(Queue::compute, kernel::Copy{.dst = view_of(b, {M, K}), .src = view_of(a, {M, K})});
  EXPECT_EQ(a, b);
}

// Every kind of result by a little: a few units, and not beyond.
TEST(Rounding, MovesWhatIsPointwiseByAUnitOrTwo) {
  auto x = random_floats(4000, 5);
  std::vector<float> still(x.size()), moved(x.size());
  Ref ref;
  Rounding rounding(std::make_unique<Ref>(), 7);
  for (auto [b, y] : {std::pair<Backend*, std::vector<float>*>{&ref, &still}, {&rounding, &moved}})
    b->put(Queue::compute, kernel::Activate{.activation = Activation::gelu,
                                            .y_N = view_of(*y, {std::ssize(*y)}),
                                            .x_N = view_of(x, {std::ssize(x)})});
  int differ = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    differ += still[i] != moved[i];
    EXPECT_LE(std::fabs(still[i] - moved[i]), 0x1p-22F * std::fabs(still[i]));
  }
  EXPECT_GT(differ, 1000);
  EXPECT_LT(differ, 3800);
}

TEST(Rounding, ColumnSumsOfCountsStayAsTheyAre) {
  auto x = random_floats(64, 9);
  std::vector<std::int64_t> sums(8), again(8);
  std::vector<float> largest(1);
  Ref ref;
  Rounding rounding(std::make_unique<Ref>(), 7);
  for (auto [b, s] :
       {std::pair<Backend*, std::vector<std::int64_t>*>{&ref, &sums}, {&rounding, &again}})
    b->put(Queue::compute,
           kernel::ColumnSum{.out_C = view_of(*s, {8}), .x_TC = view_of(x, {8, 8})});
  EXPECT_EQ(sums, again);
}

// The same draw for a product and for one of a single expert; others are moved by their own size.
TEST(Rounding, MovesProductsOfExpertsAsProducts) {
  auto a = random_floats(M * K, 1), w = random_floats(K * N, 2), huge = w;
  for (auto& x : huge) x *= 1e6F;
  const auto multiply = [&](Backend&& b, std::vector<std::int32_t> offset,
                            const std::vector<ConstView>& matrices) {
    std::vector<float> c(M * N);
    b.put(Queue::compute, kernel::GroupedMatmul{.c_RN = view_of(c, {M, N}),
                                                .a_RK = view_of(a, {M, K}),
                                                .offset_E1 = view_of(offset, {std::ssize(offset)}),
                                                .b_KN = matrices});
    return c;
  };
  const View w_KN = view_of(w, {K, N}), huge_KN = view_of(huge, {K, N});
  Rounding plain(std::make_unique<Ref>(), 7);
  EXPECT_EQ(multiply(Rounding(std::make_unique<Ref>(), 7), {0, M}, {w_KN}), product(plain, a, w));

  const auto still = multiply(Ref(), {0, 2, 2, M}, {w_KN, w_KN, huge_KN});
  const auto moved =
      multiply(Rounding(std::make_unique<Ref>(), 7), {0, 2, 2, M}, {w_KN, w_KN, huge_KN});
  const auto largest = [&](std::size_t begin, std::size_t end) {
    float most = 0;
    for (auto i = begin; i < end; ++i) most = std::max(most, std::fabs(moved[i] - still[i]));
    return most;
  };
  const auto first = largest(0, 2 * N), last = largest(2 * N, M * N);
  EXPECT_GT(first, 0);
  EXPECT_GT(last, 1e5F * first);
  EXPECT_LT(last, 1e7F * first);
}

TEST(Rounding, MovesGradientsOfExpertsAsProducts) {
  auto a = random_floats(K * M, 1), b = random_floats(K * N, 2);
  std::vector<float> c(M * N), expert(M * N), none(M * N, 3);
  std::vector<std::int32_t> offset{0, 0, K};
  const View a_RM = view_of(a, {K, M}), b_RN = view_of(b, {K, N});
  Rounding one(std::make_unique<Ref>(), 7), other(std::make_unique<Ref>(), 7);
  one.put(Queue::compute,
          kernel::Matmul{
              .c_MN = view_of(c, {M, N}), .a_MK = ConstView(a_RM).transposed(), .b_KN = b_RN});
  other.put(Queue::compute,
            kernel::GroupedMatmulGrad{.c_MN = {view_of(none, {M, N}), view_of(expert, {M, N})},
                                      .how = Accumulate::overwrite,
                                      .a_RM = a_RM,
                                      .b_RN = b_RN,
                                      .offset_E1 = view_of(offset, {3})});
  EXPECT_EQ(c, expert);
  EXPECT_EQ(none, std::vector<float>(M * N, 0));
}

TEST(Rounding, LeavesChoicesAndCountsAsTheyAre) {
  std::vector<float> z = random_floats(8 * 4, 1), weight(16);
  std::vector<std::int32_t> choice(16), offset(5), token(16), row(16), place(16);
  std::vector<std::int64_t> count(4), sums(2), product(M * N);
  std::vector<float> largest(1), a = random_floats(16 * M, 2), b = random_floats(16 * N, 3);
  const auto all = [&](Backend&& backend) {
    const auto put = [&](const kernel::Operation& o) { backend.put(Queue::compute, o); };
    put(kernel::Route{.weight_TK = view_of(weight, {8, 2}),
                      .choice_TK = view_of(choice, {8, 2}),
                      .logits_TE = view_of(z, {8, 4})});
    put(kernel::CountChoices{.count_BE = view_of(count, {1, 4}),
                             .choice_TK = view_of(choice, {8, 2})});
    put(kernel::SortChoices{.offset_E1 = view_of(offset, {5}),
                            .token_R = view_of(token, {16}),
                            .choice_R = view_of(row, {16}),
                            .row_TK = view_of(place, {8, 2}),
                            .choice_TK = view_of(choice, {8, 2})});
    sums = {0, 0};
    put(kernel::RouterLosses{.sums = view_of(sums, {2}), .logits_TE = view_of(z, {8, 4})});
    std::vector<std::int32_t> one{0, 16};
    put(kernel::GroupedMatmulGrad{.c_MN = {view_of(product, {M, N})},
                                  .a_RM = view_of(a, {16, M}),
                                  .b_RN = view_of(b, {16, N}),
                                  .offset_E1 = view_of(one, {2}),
                                  .token_R = view_of(token, {16}),
                                  .leaf = 4,
                                  .largest = {view_of(largest, {1})}});
    return std::tuple(choice, count, offset, token, row, place, sums, product, largest);
  };
  const auto still = all(Ref());
  const auto weights = weight;
  EXPECT_EQ(all(Rounding(std::make_unique<Ref>(), 7)), still);
  EXPECT_NE(weight, weights);
}

}  // namespace
}  // namespace trireme
