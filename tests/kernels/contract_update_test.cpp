// Sums over rows and over everything, and the optimizers.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/kernels/examples/updates.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

// The compute-type copy is absent where master weights serve, and in f32.
struct Update {
  std::int64_t weights;
  bool copy;
};

class UpdateContract : public ContractTest {
 protected:
  // One step of a rule over `update`'s weights. In roundings of the wide type: `slack` of w before
  // the copy is rounded, and those of the arrays; `size` of the step.
  void compare_step(const Update& update, const UpdateRule& rule, const UpdateFactors& factors,
                    double slack, std::vector<double> slack_of_state, double size);
};
INSTANTIATE_TEST_SUITE_P(Backends, UpdateContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;
constexpr std::int64_t update_counts[] = {1, 7, 65, 129, 5000, 40000};

TEST_P(UpdateContract, ColumnSum) {
  for (const std::int64_t rows : {1, 5, 33, 300})
    for (const std::int64_t width : {1, 7, 65, 129, 768})
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
          const View out =
              how == Accumulate::add ? lab.wide_random({width}, 1) : lab.wide_fresh({width});
          lab.backend.put(
              queue,
              kernel::ColumnSum{.out_C = out, .how = how, .x_TC = lab.random({rows, width}, 2)});
          lab.result("out", out, sum_error(lab.tested, rows, static_cast<double>(rows + 1)));
        });
}

// Squares of f32 are exact in f64; their sum is made there.
TEST_P(UpdateContract, SumOfSquares) {
  for (const auto n : update_counts)
    compare(fmt::format("{} elements", n), [n](Lab& lab) {
      const View narrow = lab.of_type(DType::f64, {1}, {7}),
                 wide = lab.of_type(DType::f64, {1}, {7});
      const ConstView of_narrow = lab.random({n}, 1), of_wide = lab.wide_random({n}, 2, 1e-20);
      lab.backend.put(queue, kernel::SumSquares{.out_N = narrow, .x = {of_narrow}});
      lab.backend.put(queue, kernel::SumSquares{.out_N = wide, .x = {of_wide}});
      const auto terms = static_cast<double>(n);
      lab.result("narrow", narrow, sum_error(DType::f64, n, terms));
      lab.result("wide", wide, sum_error(DType::f64, n, terms * 1e-40));
    });
}

// Of views that start anywhere; more of them than one launch on a device takes.
TEST_P(UpdateContract, SumsOfSquaresOfManyAtATime) {
  compare("130 views", [](Lab& lab) {
    constexpr std::int64_t count = 130, most = 17000;
    const View all = lab.wide_random({2 * most}, 1),
               out = lab.of_type(DType::f64, {count}, std::vector<double>(count, 7));
    std::vector<ConstView> views;
    for (std::int64_t i = 0; i < count; ++i)
      views.push_back(all.slice(0, 97 * i % most, i % 3 == 0 ? most - i : i * i % 9001));
    lab.backend.put(queue, kernel::SumSquares{.out_N = out, .x = views});
    lab.result("out", out, sum_error(DType::f64, most, static_cast<double>(most)));
  });
}

TEST_P(UpdateContract, SumOfSquaresIsFiniteExactlyWhenAllIs) {
  run([](Lab& lab) {
    const View out = lab.of_type(DType::f64, {1}, {0});
    const auto sum = [&](std::size_t at, double x) {
      std::vector<double> v(20000, 3e38);  // its square is beyond f32
      v[at] = x;
      const ConstView all = lab.wide_values({20000}, v);
      lab.backend.put(queue, kernel::SumSquares{.out_N = out, .x = {all}});
      return lab.read(out)[0];
    };
    EXPECT_TRUE(std::isfinite(sum(0, 1)));
    for (const std::size_t at : {0, 1, 77, 16384, 19999}) {
      EXPECT_FALSE(std::isfinite(sum(at, std::nan("")))) << at;
      EXPECT_FALSE(std::isfinite(sum(at, std::numeric_limits<double>::infinity()))) << at;
    }
  });
}

std::vector<Update> updates() {
  std::vector<Update> all;
  for (const auto n : update_counts)
    for (const bool copy : {true, false}) all.push_back({n, copy});
  return all;
}
std::string describe(const Update& u) {
  return fmt::format("{} weights, copy {}", u.weights, u.copy);
}

// Arrays of every rule: |m| <= 1, and where there is a second one, squares in [0.1, 1.1].
std::vector<View> state_of(Lab& lab, const UpdateRule& rule, std::int64_t n) {
  std::vector<View> state;
  for (std::size_t k = 0; k < arrays_of(rule).size(); ++k) {
    auto values = lab.read(lab.wide_random({n}, static_cast<int>(3 + k)));
    if (k == 1)
      for (double& x : values) x = 0.1 + x * x;
    state.push_back(lab.wide_values({n}, values));
  }
  return state;
}

void UpdateContract::compare_step(const Update& update, const UpdateRule& rule,
                                  const UpdateFactors& factors, double slack,
                                  std::vector<double> slack_of_state, double size) {
  compare(describe(update), [=](Lab& lab) {
    const auto [n, with_copy] = update;
    const double u = roundoff(wide(lab.tested));
    const View w = lab.wide_random({n}, 1), g = lab.wide_random({n}, 2, 3);
    const auto state = state_of(lab, rule, n);
    const View copy = with_copy ? lab.fresh({n}) : View{};
    lab.backend.put(queue, kernel::Update{.rule = rule,
                                          .shards = {{.master_N = w,
                                                      .copy_N = copy,
                                                      .grad_N = g,
                                                      .state_N = state,
                                                      .factors = factors}}});
    lab.result("w", w, slack * u);
    for (std::size_t k = 0; k < state.size(); ++k)
      lab.result(std::string(arrays_of(rule)[k]), state[k], slack_of_state[k] * u);
    if (with_copy) lab.result("copy", copy, tolerance(wide(lab.tested), 1 + size, slack * u));
  });
}

TEST_P(UpdateContract, Sgd) {
  const double size = 0.1 * (0.5 * 3 + 0.2);
  for (const auto& update : updates())
    compare_step(update, rule::Sgd{}, {.lr = 0.1, .decay = 0.2, .scale = 0.5}, 6 * (1 + size), {},
                 size);
}

// |g| <= 1.5 after scaling, so |m| <= 0.9 + 1.5 and the step is at most lr (1.5 + 0.9 |m| + decay).
TEST_P(UpdateContract, Momentum) {
  for (const bool nesterov : {false, true})
    for (const auto& update : updates()) {
      const double size = 0.1 * (1.5 + 0.9 * 2.4 + 0.2);
      compare_step(update, rule::Momentum{.momentum = 0.9, .nesterov = nesterov},
                   {.lr = 0.1, .decay = 0.2, .scale = 0.5}, 8 * (1 + size), {4 * 2.4}, size);
    }
}

// m and v are off by a few roundings of their terms, |m| <= 1, |g| <= 1.5, v in [0.1, 1.1]; so the
// step lr m / c1 / (sqrt(v / c2) + eps) by roundings of lr 2.5 / c1 / sqrt(0.1 beta2 / c2).
TEST_P(UpdateContract, AdamW) {
  const rule::AdamW rule{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
  for (const std::int64_t count : {1, 1000})
    for (const auto& update : updates()) {
      const auto t = static_cast<double>(count);
      const double c1 = 1 - std::pow(rule.beta1, t), c2 = 1 - std::pow(rule.beta2, t);
      const double size = 0.1 * 2.5 / c1 / std::sqrt(0.1 * rule.beta2 / c2);
      compare_step(update, rule, {.lr = 0.1, .decay = 0.1, .scale = 0.5, .count = count},
                   16 * size + 4, {4 * 2.5, 4 * 3.4}, size);
    }
}

// The sign is that of a sum of two numbers which are random in their last bits: rounding does not
// turn it.
TEST_P(UpdateContract, Lion) {
  for (const auto& update : updates()) {
    const double size = 0.1 * (1 + 0.2);
    compare_step(update, rule::Lion{.beta1 = 0.9, .beta2 = 0.99},
                 {.lr = 0.1, .decay = 0.2, .scale = 0.5}, 6 * (1 + size), {4 * 2.5}, size);
  }
}

TEST_P(UpdateContract, LionStandsStillWhereNothingPulls) {
  run([](Lab& lab) {
    const View w = lab.wide_random({77}, 1);
    const auto before = lab.bytes(w);
    const View m = lab.wide_values({77}, std::vector<double>(77, 0.0));
    lab.backend.put(
        queue,
        kernel::Update{
            .rule = rule::Lion{},
            .shards = {{.master_N = w, .grad_N = m, .state_N = {m}, .factors = {.lr = 0.1}}}});
    EXPECT_EQ(lab.bytes(w), before);
  });
}

// More shards than one launch on a device takes, which begin and end anywhere, each with a step of
// its own; what lies between them stays.
TEST_P(UpdateContract, ManyShardsAtATime) {
  const auto shards_of = [](std::int64_t n, const auto& shard) {
    for (std::int64_t begin = 3, i = 0; i < 70; ++i) {
      const auto count = i % 5 == 0 ? 8192 + i : i % 7 == 0 ? 0 : i * i % 129;
      ASSERT_LE(begin + count, n);
      shard(i, [=](const View& x) { return x.slice(0, begin, count); });
      begin += count + i % 4;
    }
  };
  compare("70 shards", [&](Lab& lab) {
    const std::int64_t n = 130000;
    const View w = lab.wide_random({n}, 1), g = lab.wide_random({n}, 2),
               m = lab.wide_random({n}, 3),
               v = lab.wide_values({n}, std::vector<double>(static_cast<std::size_t>(n), 0.5)),
               w_sgd = lab.wide_random({n}, 4), copy = lab.random({n}, 5);
    kernel::Update adamw{.rule = rule::AdamW{}, .shards = {}},
        sgd{.rule = rule::Sgd{}, .shards = {}};
    shards_of(n, [&](std::int64_t i, const auto& cut) {
      adamw.shards.push_back(
          {.master_N = cut(w),
           .copy_N = cut(copy),
           .grad_N = cut(g),
           .state_N = {cut(m), cut(v)},
           .factors = {.lr = 0.1, .decay = i % 2 ? 0.1 : 0, .scale = 0.5, .count = i + 1}});
      sgd.shards.push_back({.master_N = cut(w_sgd),
                            .grad_N = cut(g),
                            .factors = {.lr = 0.01 * static_cast<double>(i)}});
    });
    lab.backend.put(queue, adamw);
    lab.backend.put(queue, sgd);
    // At most lr |m| / (1 - beta1) / sqrt(v) at the first count; rounded a few times. m and v stay
    // below 2, and so does w - lr g with lr below 0.7.
    const double u = roundoff(wide(lab.tested)),
                 step = 0.1 * 1 / 0.1 / std::sqrt(0.95 * 0.5 / 0.05);
    const double slack = 16 * u * step + 4 * u;
    lab.result("m", m, 4 * u * 2);
    lab.result("v", v, 4 * u * 2);
    lab.result("w", w, slack);
    lab.result("copy", copy, tolerance(wide(lab.tested), 1 + step, slack));
    lab.result("w of sgd", w_sgd, 6 * u * 2);
  });
}

// The copy is the new master weight, rounded.
TEST_P(UpdateContract, CopiesWhatMasterHolds) {
  run([](Lab& lab) {
    const View w = lab.wide_random({5000}, 1), g = lab.wide_random({5000}, 2);
    const View copy = lab.fresh({5000}), cast = lab.fresh({5000});
    lab.backend.put(
        queue,
        kernel::Update{
            .rule = rule::Sgd{},
            .shards = {{.master_N = w, .copy_N = copy, .grad_N = g, .factors = {.lr = 0.1}}}});
    lab.backend.put(queue, kernel::Copy{.dst = cast, .src = w});
    EXPECT_EQ(lab.bytes(copy), lab.bytes(cast));
  });
}

// A shard has the same bits wherever it was cut.
TEST_P(UpdateContract, WeightsStandAlone) {
  for (const UpdateRule& rule : every_update_rule)
    run([&](Lab& lab) {
      const UpdateFactors o{.lr = 0.1, .decay = 0.1, .scale = 0.5, .count = 3};
      const std::int64_t n = 200, begin = 37, some = 50;
      const View w = lab.wide_random({n}, 1), g = lab.wide_random({n}, 3),
                 part = lab.wide_fresh({3, some});
      const auto state = state_of(lab, rule, n);
      const auto slice = [&](const View& x) { return x.slice(0, begin, some); };
      const auto copied = [&](std::int64_t i, const View& x) {
        const View to = part.slice(0, i, 1).reshaped({some});
        lab.backend.put(queue, kernel::Copy{.dst = to, .src = slice(x)});
        return to;
      };
      const View w1 = copied(0, w);
      std::vector<View> state1;
      for (const View& x : state) state1.push_back(copied(1 + std::ssize(state1), x));
      const auto step = [&](const View& master, const View& grad, const std::vector<View>& kept) {
        lab.backend.put(
            queue,
            kernel::Update{
                .rule = rule,
                .shards = {{.master_N = master, .grad_N = grad, .state_N = kept, .factors = o}}});
      };
      step(w1, slice(g), state1);
      step(w, g, state);
      EXPECT_EQ(lab.bytes(w1), lab.bytes(slice(w)));
      for (std::size_t k = 0; k < state.size(); ++k)
        EXPECT_EQ(lab.bytes(state1[k]), lab.bytes(slice(state[k])));
    });
}

// |x - average| <= 2, rounded to u times that, as is the share; the sum is rounded once.
TEST_P(UpdateContract, Average) {
  for (const double share : {0.3, 1e-4, 1.0})
    for (const auto n : update_counts)
      compare(fmt::format("{} weights, share {}", n, share), [=](Lab& lab) {
        const View average = lab.wide_random({n}, 1), x = lab.wide_random({n}, 2);
        lab.backend.put(queue, kernel::Average{.share = share, .shards = {{average, x}}});
        lab.result("average", average, 2 * 2 * share * roundoff(wide(lab.tested)));
      });
}

TEST_P(UpdateContract, AnAverageOfAConstantStaysAtIt) {
  run([](Lab& lab) {
    const View average = lab.wide_random({777}, 1), x = lab.wide_random({777}, 1);
    const auto before = lab.bytes(x);
    for (const double share : {0.1, 1e-3, 1e-7})
      lab.backend.put(queue, kernel::Average{.share = share, .shards = {{average, x}}});
    EXPECT_EQ(lab.bytes(average), before);
  });
}

// Shards that begin and end anywhere, more of them than one launch on a device takes, have the bits
// of the same averages in one piece; what lies between them stays.
TEST_P(UpdateContract, AveragesStandAlone) {
  run([](Lab& lab) {
    const std::int64_t n = 40000, length = 450;
    const View parts = lab.wide_random({n}, 1), whole = lab.wide_random({n}, 1),
               x = lab.wide_random({n}, 2), before = lab.wide_random({n}, 1);
    kernel::Average many{.share = 0.3, .shards = {}};
    for (std::int64_t i = 0; i < 80; ++i) {
      const auto begin = i * 500 + i % 7;
      many.shards.push_back({parts.slice(0, begin, length - i), x.slice(0, begin, length - i)});
    }
    lab.backend.put(queue, many);
    lab.backend.put(queue, kernel::Average{.share = 0.3, .shards = {{whole, x}}});
    for (std::int64_t i = 0; i < 80; ++i) {
      const auto begin = i * 500 + i % 7, end = begin + length - i;
      EXPECT_EQ(lab.bytes(parts.slice(0, begin, end - begin)),
                lab.bytes(whole.slice(0, begin, end - begin)));
      EXPECT_EQ(lab.bytes(parts.slice(0, end, 500 - length - 10)),
                lab.bytes(before.slice(0, end, 500 - length - 10)));
    }
  });
}

}  // namespace
}  // namespace trireme
