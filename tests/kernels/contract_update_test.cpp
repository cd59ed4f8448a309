// Sums over rows and over everything, and the optimizers.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class UpdateContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, UpdateContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;
constexpr std::int64_t counts[] = {1, 7, 65, 129, 5000, 40000};

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
  for (const auto n : counts)
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

// Of views that start anywhere; more of them than a device is told of at a time.
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

// The compute-type copy is absent where master weights serve, and in f32.
struct Update {
  std::int64_t weights;
  bool copy;
};
std::vector<Update> updates() {
  std::vector<Update> all;
  for (const auto n : counts)
    for (const bool copy : {true, false}) all.push_back({n, copy});
  return all;
}
std::string describe(const Update& u) {
  return fmt::format("{} weights, copy {}", u.weights, u.copy);
}

TEST_P(UpdateContract, Sgd) {
  for (const auto& update : updates())
    compare(describe(update), [update](Lab& lab) {
      const auto [n, with_copy] = update;
      const View w = lab.wide_random({n}, 1), g = lab.wide_random({n}, 2, 3);
      const View copy = with_copy ? lab.fresh({n}) : View{};
      lab.backend.put(
          queue, kernel::Sgd{.shards = {{.master_N = w,
                                         .copy_N = copy,
                                         .grad_N = g,
                                         .factors = {.lr = 0.1, .decay = 0.2, .scale = 0.5}}}});
      const double slack = 6 * roundoff(wide(lab.tested)) * (1 + 0.1 * (0.5 * 3 + 0.2));
      lab.result("w", w, slack);
      if (with_copy) lab.result("copy", copy, tolerance(wide(lab.tested), 2, slack));
    });
}

// m and v are off by a few roundings of their terms, |m| <= 1, |g| <= 1.5, v in [0.1, 1.1]; so the
// step lr m / c1 / (sqrt(v / c2) + eps) by roundings of lr 2.5 / c1 / sqrt(0.1 beta2 / c2).
TEST_P(UpdateContract, AdamW) {
  for (const std::int64_t count : {1, 1000})
    for (const auto& update : updates())
      compare(describe(update), [=](Lab& lab) {
        const auto [n, with_copy] = update;
        const View w = lab.wide_random({n}, 1), g = lab.wide_random({n}, 2, 3);
        const View m = lab.wide_random({n}, 3);
        auto squares = lab.read(lab.wide_random({n}, 4));
        for (double& x : squares) x = 0.1 + x * x;
        const View v = lab.wide_values({n}, squares);
        const View copy = with_copy ? lab.fresh({n}) : View{};
        const AdamWFactors o{.lr = 0.1,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .decay = 0.1,
                             .scale = 0.5,
                             .count = count};
        lab.backend.put(queue, kernel::AdamW{.shards = {{.master_N = w,
                                                         .m_N = m,
                                                         .v_N = v,
                                                         .copy_N = copy,
                                                         .grad_N = g,
                                                         .factors = o}}});
        const double u = roundoff(wide(lab.tested));
        const double c1 = 1 - std::pow(o.beta1, count), c2 = 1 - std::pow(o.beta2, count);
        const double step = o.lr * 2.5 / c1 / std::sqrt(0.1 * o.beta2 / c2);
        const double slack = 16 * u * step + 4 * u;
        lab.result("m", m, 4 * u * 2.5);
        lab.result("v", v, 4 * u * 3.4);
        lab.result("w", w, slack);
        if (with_copy) lab.result("copy", copy, tolerance(wide(lab.tested), 1 + step, slack));
      });
}

// More shards than a device is told of at a time, which begin and end anywhere, each with a step of
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
    kernel::AdamW adamw;
    kernel::Sgd sgd;
    shards_of(n, [&](std::int64_t i, const auto& cut) {
      const AdamWFactors o{.lr = 0.1,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .eps = 1e-8,
                           .decay = i % 2 ? 0.1 : 0,
                           .scale = 0.5,
                           .count = i + 1};
      adamw.shards.push_back({.master_N = cut(w),
                              .m_N = cut(m),
                              .v_N = cut(v),
                              .copy_N = cut(copy),
                              .grad_N = cut(g),
                              .factors = o});
      sgd.shards.push_back(
          {.master_N = cut(w_sgd),
           .grad_N = cut(g),
           .factors = {.lr = 0.01 * static_cast<double>(i), .decay = 0, .scale = 1}});
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
    lab.backend.put(queue,
                    kernel::Sgd{.shards = {{.master_N = w,
                                            .copy_N = copy,
                                            .grad_N = g,
                                            .factors = {.lr = 0.1, .decay = 0, .scale = 1}}}});
    lab.backend.put(queue, kernel::Copy{.dst = cast, .src = w});
    EXPECT_EQ(lab.bytes(copy), lab.bytes(cast));
  });
}

// A shard has the same bits wherever it was cut.
TEST_P(UpdateContract, WeightsStandAlone) {
  run([](Lab& lab) {
    const AdamWFactors o{.lr = 0.1,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .decay = 0.1,
                         .scale = 0.5,
                         .count = 3};
    const std::int64_t n = 200, begin = 37, some = 50;
    const View w = lab.wide_random({n}, 1), m = lab.wide_random({n}, 2);
    const View v = lab.wide_values({n}, std::vector<double>(std::size_t(n), 0.5));
    const View g = lab.wide_random({n}, 3), part = lab.wide_fresh({3, some});
    const auto slice = [&](const View& x) { return x.slice(0, begin, some); };
    const auto copied = [&](int i, const View& x) {
      const View to = part.slice(0, i, 1).reshaped({some});
      lab.backend.put(queue, kernel::Copy{.dst = to, .src = slice(x)});
      return to;
    };
    const View w1 = copied(0, w), m1 = copied(1, m), v1 = copied(2, v);
    lab.backend.put(
        queue,
        kernel::AdamW{
            .shards = {{.master_N = w1, .m_N = m1, .v_N = v1, .grad_N = slice(g), .factors = o}}});
    lab.backend.put(
        queue,
        kernel::AdamW{.shards = {{.master_N = w, .m_N = m, .v_N = v, .grad_N = g, .factors = o}}});
    EXPECT_EQ(lab.bytes(w1), lab.bytes(slice(w)));
    EXPECT_EQ(lab.bytes(m1), lab.bytes(slice(m)));
    EXPECT_EQ(lab.bytes(v1), lab.bytes(slice(v)));
  });
}

}  // namespace
}  // namespace trireme
