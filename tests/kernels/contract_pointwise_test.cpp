#include <fmt/format.h>

#include <cmath>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

struct Drop {
  float p;
  bool skip;
  enum { fresh, over_x, over_skip } where;
};

class PointwiseContract : public ContractTest {
 protected:
  void check_dropout(const Drop&, std::int64_t width, std::int64_t t0);
};
INSTANTIATE_TEST_SUITE_P(Backends, PointwiseContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;
constexpr std::int64_t element_counts[] = {1, 7, 65, 129, 5000};

// What `steps` roundings of values up to `magnitude` may add to.
double rounded(const Lab& lab, int steps, double magnitude) {
  return steps * roundoff(wide(lab.tested)) * magnitude;
}

// x / (1 + exp(-2u)): four roundings of x for exp, the sum and the quotient, and 2u relatively off
// by a few roundings, which reaches y by |2u y'| <= 3.
TEST_P(PointwiseContract, Gelu) {
  for (const auto n : element_counts)
    compare(fmt::format("{} elements", n), [n](Lab& lab) {
      const View y = lab.fresh({n});
      lab.backend.put(
          queue,
          kernel::Activate{.activation = Activation::gelu, .y_N = y, .x_N = lab.random({n}, 1, 6)});
      lab.result("y", y, rounded(lab, 8, 6));
    });
}

TEST_P(PointwiseContract, GeluGradient) {
  for (const auto n : element_counts)
    compare(fmt::format("{} elements", n), [n](Lab& lab) {
      const View dx = lab.fresh({n});
      lab.backend.put(queue, kernel::ActivateGrad{.activation = Activation::gelu,
                                                  .dx_N = dx,
                                                  .dy_N = lab.random({n}, 2),
                                                  .x_N = lab.random({n}, 1, 6)});
      lab.result("dx", dx, rounded(lab, 16, 2));
    });
}

TEST_P(PointwiseContract, GeluFarOut) {
  const std::vector<double> far{-1e30, -1000, -30, -12, 0, 12, 30, 1000, 1e30};
  const Shape s{static_cast<std::int64_t>(far.size())};
  compare("far out", [=](Lab& lab) {
    const View x = lab.values(s, far), y = lab.fresh(s), dx = lab.fresh(s);
    const View dy = lab.values(s, std::vector<double>(far.size(), 1.0));
    lab.backend.put(queue, kernel::Activate{.activation = Activation::gelu, .y_N = y, .x_N = x});
    lab.backend.put(queue, kernel::ActivateGrad{
                               .activation = Activation::gelu, .dx_N = dx, .dy_N = dy, .x_N = x});
    lab.result("y", y, 1e-30);
    lab.result("dx", dx, rounded(lab, 1, 1));
  });
}

struct Rows {
  std::int64_t rows, width;
};
constexpr Rows sizes[] = {{1, 1}, {5, 7}, {5, 65}, {33, 129}, {5, 768}};

constexpr GateFunction gates[] = {GateFunction::silu, GateFunction::gelu,
                                  GateFunction::clamped_silu};
// Inputs of the clamped function are clamped where they are beyond 7.
constexpr double reach(GateFunction gate) {
  return gate == GateFunction::clamped_silu ? 9 : 4;
}

TEST_P(PointwiseContract, Swiglu) {
  for (const auto gate : gates)
    for (const auto& [rows, width] : sizes)
      compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
        const View y = lab.fresh({rows, width});
        lab.backend.put(queue,
                        kernel::Swiglu{.y_TF = y,
                                       .gate_up_T2F = lab.random({rows, 2, width}, 1, reach(gate)),
                                       .gate = gate});
        lab.result("y", y, rounded(lab, 8, reach(gate) * reach(gate)));
      });
}

TEST_P(PointwiseContract, SwigluGradient) {
  for (const auto gate : gates)
    for (const auto& [rows, width] : sizes)
      compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
        const View x = lab.random({rows, 2, width}, 1, reach(gate)),
                   dx = lab.fresh({rows, 2, width});
        lab.backend.put(queue, kernel::SwigluGrad{.dgate_up_T2F = dx,
                                                  .dy_TF = lab.random({rows, width}, 2),
                                                  .gate_up_T2F = x,
                                                  .gate = gate});
        lab.result("dgate_up", dx, rounded(lab, 16, reach(gate) * reach(gate)));
      });
}

TEST_P(PointwiseContract, SwigluFarOut) {
  const std::vector<double> gate_up{-1e30, -1000, -90, 0, 90, 1000, 1, 1, 1, 1, 1, 1};
  for (const auto gate : {GateFunction::silu, GateFunction::clamped_silu})
    compare("far out", [=](Lab& lab) {
      // Clamped values are up to 7 (7 + 1) in size, but here up is 1.
      const double size = gate == GateFunction::clamped_silu ? 14 : 1;
      const View x = lab.values({1, 2, 6}, gate_up), y = lab.fresh({1, 6});
      const View dx = lab.fresh({1, 2, 6});
      lab.backend.put(queue, kernel::Swiglu{.y_TF = y, .gate_up_T2F = x, .gate = gate});
      lab.backend.put(queue, kernel::SwigluGrad{.dgate_up_T2F = dx,
                                                .dy_TF = lab.values({1, 6}, {1, 1, 1, 1, 1, 1}),
                                                .gate_up_T2F = x,
                                                .gate = gate});
      lab.result("y", y, rounded(lab, 8, size));
      lab.result("dgate_up", dx, rounded(lab, 8, size));
    });
}

// At the limits of the clamped function and beyond. What is clamped has a gradient of exactly 0.
TEST_P(PointwiseContract, ClampedInputsHaveNoGradient) {
  run([](Lab& lab) {
    const View x = lab.values({1, 2, 6}, {7, 7.0625, 40, 1, 1, 1, 1, 1, 1, 7, -7.0625, 8}),
               dx = lab.fresh({1, 2, 6});
    lab.backend.put(queue, kernel::SwigluGrad{.dgate_up_T2F = dx,
                                              .dy_TF = lab.values({1, 6}, {1, 1, 1, 1, 1, 1}),
                                              .gate_up_T2F = x,
                                              .gate = GateFunction::clamped_silu});
    const auto d = lab.read(dx);
    for (const std::size_t i : {0, 3, 4, 5, 6, 7, 8, 9}) EXPECT_NE(d[i], 0) << i;
    for (const std::size_t i : {1, 2, 10, 11}) EXPECT_EQ(d[i], 0) << i;
  });
}

// q of a packed [B, T, H + 2, D], turned by a table that begins at a later position.
TEST_P(PointwiseContract, Rotary) {
  for (const std::int64_t dim : {2, 16, 66, 80, 128})
    for (const auto direction : {Direction::forward, Direction::backward})
      compare(fmt::format("D {}", dim), [=](Lab& lab) {
        const std::int64_t B = 2, T = 5, H = 3;
        const View x = lab.random({B, T, H + 2, dim}, 1, 4);
        std::vector<double> angles;
        for (std::int64_t t = 0; t < T + 7; ++t)
          for (const bool sine : {false, true})
            for (std::int64_t e = 0; e < dim / 2; ++e) {
              const double a = static_cast<double>(t) / static_cast<double>(e + 1);
              angles.push_back(sine ? std::sin(a) : std::cos(a));
            }
        const View table = lab.wide_values({T + 7, 2, dim / 2}, angles).slice(0, 7, T);
        lab.backend.put(
            queue,
            kernel::Rotary{.x_BTHD = x.slice(2, 1, H), .table_T2E = table, .direction = direction});
        lab.result("x", x, rounded(lab, 3, 2 * 4));
      });
}

// Row t of sample b is turned as row position(b, t) of the table says.
TEST_P(PointwiseContract, RotaryAtPositions) {
  compare("D 16", [](Lab& lab) {
    const std::int64_t B = 2, T = 5, H = 3, D = 16;
    const View x = lab.random({B, T, H + 2, D}, 1, 4);
    const View table = lab.wide_random({T + 7, 2, D / 2}, 2);
    const View at = lab.ids({0, 1, 2, 0, 1, 11, 0, 0, 0, 1}).reshaped({B, T});
    lab.backend.put(queue, kernel::Rotary{.x_BTHD = x.slice(2, 1, H),
                                          .table_T2E = table,
                                          .direction = Direction::backward,
                                          .position_BT = at});
    lab.result("x", x, rounded(lab, 3, 2 * 4));
  });
}

void PointwiseContract::check_dropout(const Drop& drop, std::int64_t width, std::int64_t t0) {
  const auto what = fmt::format("p {} skip {} width {} t0 {}", drop.p, drop.skip, width, t0);
  compare(what, [=](Lab& lab) {
    const Shape s{3, 33, width};
    const View x = lab.random(s, 1), skip = drop.skip ? lab.random(s, 2) : View{};
    const View y = drop.where == Drop::over_x      ? x
                   : drop.where == Drop::over_skip ? skip
                                                   : lab.fresh(s);
    const SampleRows rows{lab.numbers({7, (1LL << 40) + 3, 0}), t0};
    lab.backend.put(queue, kernel::Dropout{.y_BTC = y,
                                           .x_BTC = x,
                                           .skip_BTC = skip,
                                           .key = {0x123456789abcdefULL, drop.p},
                                           .rows = rows});
    lab.result("y", y, rounded(lab, 4, 1 / (1 - static_cast<double>(drop.p)) + 1));
  });
}

TEST_P(PointwiseContract, Dropout) {
  for (const std::int64_t width : {1, 7, 65, 768})
    for (const std::int64_t t0 : {0, 3}) {
      check_dropout({0.1F, true, Drop::fresh}, width, t0);
      check_dropout({0.5F, false, Drop::fresh}, width, t0);
    }
}

TEST_P(PointwiseContract, DropoutInPlace) {
  for (const float p : {0.0F, 0.3F}) {
    check_dropout({p, true, Drop::over_x}, 65, 1);
    check_dropout({p, false, Drop::over_x}, 65, 1);
    check_dropout({p, true, Drop::over_skip}, 65, 1);
  }
}

TEST_P(PointwiseContract, DropoutOfNothingKeepsEverything) {
  check_dropout({0, true, Drop::fresh}, 65, 0);
  check_dropout({0, false, Drop::fresh}, 65, 0);
}

// An element has the same bits wherever in its array it stands.
TEST_P(PointwiseContract, ElementsStandAlone) {
  run([](Lab& lab) {
    const std::int64_t n = 129, begin = 37, some = 50;
    const View x = lab.random({n}, 1, 4), dy = lab.random({n}, 2);
    const View all = lab.fresh({n}), part = lab.fresh({some});
    lab.backend.put(queue, kernel::Activate{.activation = Activation::gelu, .y_N = all, .x_N = x});
    lab.backend.put(
        queue, kernel::Activate{
                   .activation = Activation::gelu, .y_N = part, .x_N = x.slice(0, begin, some)});
    EXPECT_EQ(lab.bytes(part), lab.bytes(all.slice(0, begin, some)));
    lab.backend.put(queue, kernel::ActivateGrad{
                               .activation = Activation::gelu, .dx_N = all, .dy_N = dy, .x_N = x});
    lab.backend.put(queue, kernel::ActivateGrad{.activation = Activation::gelu,
                                                .dx_N = part,
                                                .dy_N = dy.slice(0, begin, some),
                                                .x_N = x.slice(0, begin, some)});
    EXPECT_EQ(lab.bytes(part), lab.bytes(all.slice(0, begin, some)));
  });
}

TEST_P(PointwiseContract, PositionsStandAlone) {
  run([](Lab& lab) {
    const View x = lab.random({1, 33, 65}, 1), all = lab.fresh({1, 33, 65});
    const View part = lab.fresh({1, 10, 65}), samples = lab.numbers({5});
    const DropoutKey key{9, 0.5F};
    lab.backend.put(queue,
                    kernel::Dropout{.y_BTC = all, .x_BTC = x, .key = key, .rows = {samples, 100}});
    lab.backend.put(
        queue, kernel::Dropout{
                   .y_BTC = part, .x_BTC = x.slice(1, 11, 10), .key = key, .rows = {samples, 111}});
    EXPECT_EQ(lab.bytes(part), lab.bytes(all.slice(1, 11, 10)));
  });
}

constexpr Rows weighted_sizes[] = {{1, 1}, {5, 7}, {33, 65}, {5, 128}, {33, 768}, {1, 129}};

// An expert's, by the weight of a row.
TEST_P(PointwiseContract, WeightedSwiglu) {
  for (const auto gate : gates)
    for (const auto& [rows, width] : weighted_sizes)
      compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
        const View y = lab.fresh({rows, width});
        lab.backend.put(queue,
                        kernel::Swiglu{.y_TF = y,
                                       .gate_up_T2F = lab.random({rows, 2, width}, 1, reach(gate)),
                                       .weight_T = lab.wide_random({rows}, 2),
                                       .gate = gate});
        lab.result("y", y, rounded(lab, 9, reach(gate) * reach(gate)));
      });
}

// dweight adds terms up to reach(gate)^2 with errors of their own.
TEST_P(PointwiseContract, WeightedSwigluGradient) {
  for (const auto gate : gates)
    for (const auto& [rows, width] : weighted_sizes)
      for (const bool wanted : {false, true})
        compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
          const View dx = lab.fresh({rows, 2, width});
          const View dweight = wanted ? lab.wide_fresh({rows}) : View{};
          lab.backend.put(
              queue, kernel::SwigluGrad{.dgate_up_T2F = dx,
                                        .dweight_T = dweight,
                                        .dy_TF = lab.random({rows, width}, 3),
                                        .gate_up_T2F = lab.random({rows, 2, width}, 1, reach(gate)),
                                        .weight_T = lab.wide_random({rows}, 2),
                                        .gate = gate});
          lab.result("dgate_up", dx, rounded(lab, 16, reach(gate) * reach(gate)));
          const double terms = reach(gate) * reach(gate) * static_cast<double>(width);
          if (wanted)
            lab.result("dweight", dweight,
                       sum_error(lab.tested, width, terms) + rounded(lab, 8, terms));
        });
}

}  // namespace
}  // namespace trireme
