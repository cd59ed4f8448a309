// Routers and the rows of experts on more than 2^31 elements.
#include <array>

#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

template <class T>
class LargeRouting : public LargeArrays<T> {};
TYPED_TEST_SUITE(LargeRouting, LargeTypes);

class LargeRouters : public LargeArrays<float> {};

// Four tokens a block: the last has one.
constexpr std::int64_t experts = 8192, tokens = two_31 / experts + 5, choices = 3;
static_assert(tokens % 4 == 1);

TEST_F(LargeRouters, Route) {
  const Large<float> z(tokens * experts), weight(tokens * choices);
  const Large<std::int32_t> choice(tokens * choices);
  const auto z1 = numbers<float>(experts, 1);
  auto weight1 = nothing<float>(choices);
  auto choice1 = nothing<std::int32_t>(choices);
  z.ends_in(z1);
  const auto put = [](const OnStream& s, const View& w, const View& c, const ConstView& logits) {
    run(kernel::Route{.weight_TK = w, .choice_TK = c, .logits_TE = logits}, s);
  };
  last_block([&](const OnStream& s) {
    put(s, weight.view({tokens, choices}), choice.view({tokens, choices}),
        z.view({tokens, experts}));
  });
  all_blocks([&](const OnStream& s) {
    put(s, view_of(weight1.data(), {1, choices}), view_of(choice1.data(), {1, choices}),
        view_of(z1.data(), {1, experts}));
  });
  expect_same(weight, weight1, "weight");
  expect_same(choice, choice1, "choice");
}

TYPED_TEST(LargeRouting, RouteGradient) {
  using T = TypeParam;
  const Large<float> z(tokens * experts), dweight(tokens * choices);
  const Large<std::int32_t> choice(tokens * choices);
  const Large<std::int64_t> count(tokens * experts);  // every token is a sample
  const Large<T> dz(tokens * experts);
  const auto z1 = numbers<float>(experts, 1), dweight1 = numbers<float>(choices, 2);
  const std::vector<std::int32_t> choice1{7, 8191, 100};
  std::vector<std::int64_t> count1;
  for (std::int64_t e = 0; e < experts; ++e) count1.push_back(e % 100);
  auto dz1 = nothing<T>(experts);
  z.ends_in(z1);
  dweight.ends_in(dweight1);
  choice.ends_in(choice1);
  count.ends_in(count1);
  const auto put = [](const OnStream& s, const View& to, const ConstView& dw, const ConstView& c,
                      const ConstView& logits, const ConstView& counts) {
    run(kernel::RouteGrad{.dlogits_TE = to,
                          .dweight_TK = dw,
                          .choice_TK = c,
                          .logits_TE = logits,
                          .count_BE = counts,
                          .balance_scale = 0.5,
                          .z_scale = 0.5},
        s);
  };
  const Shape all{tokens, experts}, one{1, experts}, chosen{tokens, choices}, chosen1{1, choices};
  this->last_block([&](const OnStream& s) {
    put(s, dz.view(all), dweight.view(chosen), choice.view(chosen), z.view(all), count.view(all));
  });
  this->all_blocks([&](const OnStream& s) {
    put(s, view_of(dz1.data(), one), view_of(dweight1.data(), chosen1),
        view_of(choice1.data(), chosen1), view_of(z1.data(), one), view_of(count1.data(), one));
  });
  expect_same(dz, dz1, "dlogits");
}

TEST_F(LargeRouters, Losses) {
  const Large<float> z(tokens * experts);
  const Large<std::int64_t> count(tokens * experts);
  const auto z1 = numbers<float>(experts, 1);
  const std::vector<std::int64_t> count1(experts, 3);
  z.ends_in(z1);
  count.ends_in(count1);
  lend(16 * tokens);
  std::array<double, 2> sums{}, sums1{};
  const auto put = [](const OnStream& s, double* to, const ConstView& logits,
                      const ConstView& counts) {
    run(kernel::RouterLosses{.sums = view_of(to, {2}), .logits_TE = logits, .count_BE = counts}, s);
  };
  const Shape all{tokens, experts}, one{1, experts};
  last_block([&](const OnStream& s) { put(s, sums.data(), z.view(all), count.view(all)); });
  all_blocks([&](const OnStream& s) {
    put(s, sums1.data(), view_of(z1.data(), one), view_of(count1.data(), one));
  });
  EXPECT_EQ(sums, sums1);
  EXPECT_GT(sums1[0] * sums1[1], 0);
}

TYPED_TEST(LargeRouting, SumsOfRows) {
  using T = TypeParam;
  constexpr std::int64_t width = 512, rows = TestFixture::strided / width, each = 2;
  const Large<T> x(rows * width), y(rows * width);
  const Large<std::int32_t> place(rows * each);
  const auto x1 = numbers<T>(width, 1);
  x.ends_in(x1);
  place.ends_in({static_cast<std::int32_t>(rows - 1), static_cast<std::int32_t>(rows - 1)});
  this->last_block([&](const OnStream& s) {
    run(kernel::SumRows{.y_TC = y.view({rows, width}),
                        .x_RC = x.view({rows, width}),
                        .row_TK = place.view({rows, each})},
        s);
  });
  auto twice = nothing<T>(width);
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = T(2 * static_cast<float>(x1[i]));
  expect_same(y, twice, "y");
}

TEST_F(LargeRouters, CountsOfChoices) {
  constexpr std::int64_t n = two_31 + most_threads;
  const Large<std::int32_t> choice(n);
  choice.ends_in({3});
  std::array<std::int64_t, 4> count{};
  last_block([&](const OnStream& s) {
    run(kernel::CountChoices{.count_BE = view_of(count.data(), {1, 4}),
                             .how = Accumulate::add,
                             .choice_TK = choice.view({n, 1})},
        s);
  });
  EXPECT_EQ(count[3], 1);
}

TYPED_TEST(LargeRouting, WeightedSwiglu) {
  using T = TypeParam;
  constexpr std::int64_t width = 64, rows = TestFixture::strided / width;
  const Large<T> gate_up(rows * 2 * width), y(rows * width);
  const Large<float> weight(rows);
  const auto gate_up1 = numbers<T>(2 * width, 1);
  const auto weight1 = numbers<float>(1, 2);
  auto y1 = nothing<T>(width);
  gate_up.ends_in(gate_up1);
  weight.ends_in(weight1);
  const auto put = [](const OnStream& s, const View& to, const ConstView& from,
                      const ConstView& by) {
    run(kernel::Swiglu{.y_TF = to, .gate_up_T2F = from, .weight_T = by}, s);
  };
  this->last_block([&](const OnStream& s) {
    put(s, y.view({rows, width}), gate_up.view({rows, 2, width}), weight.view({rows}));
  });
  this->all_blocks([&](const OnStream& s) {
    put(s, view_of(y1.data(), {1, width}), view_of(gate_up1.data(), {1, 2, width}),
        view_of(weight1.data(), {1}));
  });
  expect_same(y, y1, "y");
}

// Eight rows a block: the last has one.
TYPED_TEST(LargeRouting, WeightedSwigluGradient) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 9;
  const Large<T> gate_up(rows * 2 * width), dy(rows * width), d(rows * 2 * width);
  const Large<float> weight(rows), dweight(rows);
  const auto gate_up1 = numbers<T>(2 * width, 1), dy1 = numbers<T>(width, 2);
  const auto weight1 = numbers<float>(1, 3);
  auto d1 = nothing<T>(2 * width);
  auto dweight1 = nothing<float>(1);
  gate_up.ends_in(gate_up1);
  dy.ends_in(dy1);
  weight.ends_in(weight1);
  const auto put = [](const OnStream& s, const View& to, const View& to_weight, const ConstView& by,
                      const ConstView& from, const ConstView& w) {
    run(kernel::SwigluGrad{.dgate_up_T2F = to,
                           .dweight_T = to_weight,
                           .dy_TF = by,
                           .gate_up_T2F = from,
                           .weight_T = w},
        s);
  };
  this->last_block([&](const OnStream& s) {
    put(s, d.view({rows, 2, width}), dweight.view({rows}), dy.view({rows, width}),
        gate_up.view({rows, 2, width}), weight.view({rows}));
  });
  this->all_blocks([&](const OnStream& s) {
    put(s, view_of(d1.data(), {1, 2, width}), view_of(dweight1.data(), {1}),
        view_of(dy1.data(), {1, width}), view_of(gate_up1.data(), {1, 2, width}),
        view_of(weight1.data(), {1}));
  });
  expect_same(d, d1, "dgate_up");
  expect_same(dweight, dweight1, "dweight");
}

}  // namespace
}  // namespace trireme::cuda
