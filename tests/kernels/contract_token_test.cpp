// Kernels that look at tokens: embedding and cross entropy.
#include <fmt/format.h>

#include <cmath>

#include "tests/kernels/error_bounds.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class TokenContract : public ContractTest {
 protected:
  void check_cross_entropy(std::int64_t rows, std::int64_t width, double amplitude, Accumulate how,
                           Logits after, double softcap = 0);
};
INSTANTIATE_TEST_SUITE_P(Backends, TokenContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;
constexpr std::int64_t vocabulary = 257;

// Every third one is 3, the rest all over the vocabulary, its ends among them.
std::vector<std::int32_t> some_ids(std::int64_t rows) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < rows; ++t)
    ids.push_back(t % 3 == 0 ? 3 : static_cast<std::int32_t>((256 + 89 * (t - 1)) % vocabulary));
  return ids;
}

TEST_P(TokenContract, Embedding) {
  for (const std::int64_t rows : {1, 5, 33})
    for (const std::int64_t width : {1, 7, 65, 129, 768})
      compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
        const View y = lab.fresh({rows, width});
        lab.backend.put(queue, kernel::Embedding{.y_TC = y,
                                                 .ids_T = lab.ids(some_ids(rows)),
                                                 .table_VC = lab.random({vocabulary, width}, 1)});
        lab.result("y", y, 0);
      });
}

TEST_P(TokenContract, EmbeddingGradient) {
  for (const std::int64_t rows : {1, 5, 33, 300})
    for (const std::int64_t width : {1, 7, 65, 129, 768})
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
          const Shape s{vocabulary, width};
          const View dtable = how == Accumulate::add ? lab.wide_random(s, 1) : lab.wide_fresh(s);
          lab.backend.put(queue, kernel::EmbeddingGrad{.dtable_VC = dtable,
                                                       .how = how,
                                                       .dy_TC = lab.random({rows, width}, 2),
                                                       .ids_T = lab.ids(some_ids(rows))});
          lab.result("dtable", dtable,
                     sum_error(lab.tested, rows, static_cast<double>(rows / 3 + 3)));
        });
}

std::vector<std::int32_t> some_targets(std::int64_t rows) {
  auto targets = some_ids(rows);
  for (std::size_t t = 2; t < targets.size(); t += 4) targets[t] = -1;
  return targets;
}

void TokenContract::check_cross_entropy(std::int64_t rows, std::int64_t width, double amplitude,
                                        Accumulate how, Logits after, double softcap) {
  const auto what =
      fmt::format("rows {} width {} amplitude {} soft cap {}", rows, width, amplitude, softcap);
  compare(what, [=](Lab& lab) {
    const View z = lab.random({rows, width}, 1, amplitude);
    auto targets = some_targets(rows);
    for (auto& t : targets) t = t < 0 ? t : static_cast<std::int32_t>(t % width);
    const View loss = lab.of_type(DType::f64, {1}, {how == Accumulate::add ? 1.5 : std::nan("")});
    const double scale = 0.37;
    lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                .how = how,
                                                .logits_TV = z,
                                                .target_T = lab.ids(targets),
                                                .scale = scale,
                                                .logits = after,
                                                .softcap = softcap});
    CrossEntropyErrors e(lab.tested, width, softcap > 0 ? softcap : amplitude);
    // Of a tanh and a few roundings, in all terms and in the slope.
    const double off = 10 * roundoff(wide(lab.tested)) * softcap;
    e.relative += 2 * off + (softcap > 0 ? 4 * off / softcap : 0);
    e.loss += 2 * off;
    lab.result("loss", loss, static_cast<double>(rows) * e.loss);
    lab.result("logits", z, after == Logits::keep ? 0 : scale * 2 * e.relative);
  });
}

TEST_P(TokenContract, CrossEntropy) {
  for (const std::int64_t rows : {1, 5, 33})
    for (const std::int64_t width : {1, 7, 65, 257, 768})
      for (const auto after : {Logits::keep, Logits::become_gradient}) {
        check_cross_entropy(rows, width, 5, Accumulate::overwrite, after);
        check_cross_entropy(rows, width, 5, Accumulate::add, after);
      }
}

TEST_P(TokenContract, CrossEntropyUnderASoftCap) {
  for (const std::int64_t width : {7, 65, 768})
    for (const auto after : {Logits::keep, Logits::become_gradient})
      for (const double softcap : {2.0, 30.0}) {
        check_cross_entropy(33, width, 5, Accumulate::overwrite, after, softcap);
        check_cross_entropy(5, width, 100, Accumulate::add, after, softcap);
      }
}

// A share of the loss is the divergence from a teacher: a mean over p of log(p / q), of which none
// is larger than `apart`.
TEST_P(TokenContract, CrossEntropyWithATeacher) {
  constexpr std::int64_t rows = 33;
  for (const std::int64_t width : {1, 7, 65, 768})
    for (const auto after : {Logits::keep, Logits::become_gradient})
      for (const auto& [temperature, share, softcap] : {std::tuple{1.0, 1.0, 0.0},
                                                        {2.5, 0.4, 0.0},
                                                        {0.7, 0.9, 3.0},
                                                        {1.0, 0.0, 0.0},
                                                        {3.0, 0.5, 2.0}})
        compare(
            fmt::format("width {} temperature {} share {} soft cap {}", width, temperature, share,
                        softcap),
            [=](Lab& lab) {
              const double amplitude = 5, scale = 0.37, u = roundoff(wide(lab.tested)),
                           others = temperature > 2 ? 3 : softcap / 2;  // the teacher's cap
              const View z = lab.random({rows, width}, 1, amplitude);
              auto targets = some_targets(rows);
              for (auto& t : targets) t = t < 0 ? t : static_cast<std::int32_t>(t % width);
              const View loss = lab.of_type(DType::f64, {1}, {1.5});
              lab.backend.put(
                  queue, kernel::CrossEntropy{.loss = loss,
                                              .how = Accumulate::add,
                                              .logits_TV = z,
                                              .target_T = lab.ids(targets),
                                              .scale = scale,
                                              .logits = after,
                                              .softcap = softcap,
                                              .teacher = {lab.random({rows, width}, 2, amplitude),
                                                          others, temperature, share}});
              CrossEntropyErrors one(lab.tested, width, amplitude),
                  hot(lab.tested, width, amplitude / temperature);
              // Of a tanh and a few roundings.
              const double off = 10 * u * std::max(softcap, others);
              for (auto* e : {&one, &hot}) {
                e->relative +=
                    (2 * off + (softcap > 0 ? 4 * off / softcap : 0)) / std::min(1.0, temperature);
                e->loss += 2 * off;
              }
              const double apart =
                               4 * amplitude / temperature + std::log(static_cast<double>(width)),
                           divergence = sum_error(lab.tested, width, apart) +
                                        (2 * hot.relative + 8 * u) * (apart + 1);
              lab.result(
                  "loss", loss,
                  static_cast<double>(rows) *
                      ((1 - share) * one.loss + share * temperature * temperature * divergence));
              lab.result("logits", z,
                         after == Logits::keep ? 0
                                               : scale * ((1 - share) * 2 * one.relative +
                                                          share * temperature * 4 * hot.relative));
            });
}

// At high temperatures p and q are much alike, and t^2 sum p log(p / q) nears half of the variance
// of y - z, of which no rounding may be multiplied by t^2. With x = log(q / p): |x| <= 4 amplitude
// / t, off by 8 u amplitude / t, and by what all have in common.
TEST_P(TokenContract, CrossEntropyWithATeacherAtHighTemperature) {
  constexpr std::int64_t rows = 9;
  constexpr double amplitude = 5;
  for (const std::int64_t width : {7, 65, 768, 5003})
    for (const double temperature : {100.0, 1000.0})
      compare(fmt::format("width {} temperature {}", width, temperature), [=](Lab& lab) {
        const View loss = lab.of_type(DType::f64, {1}, {0});
        const View z = lab.random({rows, width}, 1, amplitude),
                   y = lab.random({rows, width}, 2, amplitude);
        lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                    .logits_TV = z,
                                                    .target_T = lab.ids(std::vector<std::int32_t>(
                                                        static_cast<std::size_t>(rows), 1)),
                                                    .teacher = {y, 0, temperature, 1}});
        const double u = roundoff(wide(lab.tested)), most = 8 * amplitude * amplitude;
        const CrossEntropyErrors hot(lab.tested, width, amplitude / temperature);
        const double common = 2 * hot.loss, relative = 2 * hot.relative + 20 * u + common;
        lab.result(
            "loss", loss,
            rows * (most * (relative + 4 * u) + temperature * temperature * common * common / 2));
      });
}

// What a model has in common with its teacher costs nothing.
TEST_P(TokenContract, NothingIsLearntOfOneself) {
  run([](Lab& lab) {
    const Shape s{5, 257};
    const View z = lab.random(s, 1, 5), twin = lab.random(s, 1, 5);
    const View loss = lab.of_type(DType::f64, {1}, {0});
    lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                .logits_TV = z,
                                                .target_T = lab.ids({0, 1, 2, 3, 256}),
                                                .logits = Logits::become_gradient,
                                                .teacher = {.logits_TV = twin, .share = 1}});
    for (const double g : lab.read(z)) EXPECT_EQ(g, 0);
    EXPECT_NEAR(lab.read(loss)[0], 0, 5 * sum_error(lab.tested, 257, 1));
  });
}

TEST_P(TokenContract, CrossEntropyOfLargeLogits) {
  check_cross_entropy(33, 257, 1e4, Accumulate::overwrite, Logits::become_gradient);
}

// Near the end of f32; a power of two, which every type holds.
TEST_P(TokenContract, CrossEntropyDoesNotOverflow) {
  compare("huge logits", [](Lab& lab) {
    const double huge = 0x1p127;
    std::vector<double> logits(3 * 257, -huge);
    logits[5] = huge;               // row 0: certain and right
    logits[257 + 5] = huge;         // row 1: certain and wrong
    logits[2 * 257 + 100] = -1e30;  // row 2: masked
    const View z = lab.values({3, 257}, logits);
    const View loss = lab.of_type(DType::f64, {1}, {0});
    lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                .logits_TV = z,
                                                .target_T = lab.ids({5, 6, -1}),
                                                .scale = 1,
                                                .logits = Logits::become_gradient});
    lab.result("loss", loss, 0);
    lab.result("logits", z, 0);
  });
}

// The loss does not depend on what all logits have in common. Where m of them are 2^k and others a
// half of it, a target among the m costs log(m), and another one 2^(k - 1) more.
TEST_P(TokenContract, CrossEntropyOfACommonOffset) {
  constexpr std::int64_t width = 257, most = 200;
  for (const double offset : {0x1p36, -0x1p60, 0x1p126})
    compare(fmt::format("offset {}", offset), [=](Lab& lab) {
      std::vector<double> logits(width, offset > 0 ? offset / 2 : 2 * offset);
      std::fill_n(logits.begin(), most, offset);
      // The sum, of ones and zeros, is exact.
      const double slack = 4 * roundoff(wide(lab.tested)) * (std::log(1.0 * most) + 1);
      const double further = offset > 0 ? offset / 2 : -offset;
      for (const auto& [target, exact] :
           {std::pair(5, std::log(1.0 * most)), std::pair(250, std::log(1.0 * most) + further)}) {
        const View z = lab.values({1, width}, logits), loss = lab.of_type(DType::f64, {1}, {0});
        lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                    .logits_TV = z,
                                                    .target_T = lab.ids({target}),
                                                    .scale = 1,
                                                    .logits = Logits::become_gradient});
        EXPECT_NEAR(lab.read(loss)[0], exact, slack + 0x1p-52 * exact);
        lab.result("loss", loss, slack + 0x1p-52 * exact);
        lab.result("gradient", z, slack);
      }
    });
}

// Every row masked: a loss of zero and no gradient, also where logits are NaN.
TEST_P(TokenContract, CrossEntropyOfMaskedRows) {
  compare("masked rows", [](Lab& lab) {
    const View z = lab.fresh({5, 65}), loss = lab.of_type(DType::f64, {1}, {std::nan("")});
    lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                .logits_TV = z,
                                                .target_T = lab.ids({-1, -1, -1, -1, -1}),
                                                .scale = 1,
                                                .logits = Logits::become_gradient});
    lab.result("loss", loss, 0);
    lab.result("logits", z, 0);
  });
}

TEST_P(TokenContract, CrossEntropyShowsNaN) {
  for (const std::size_t at : {0, 64, 128})
    run([at](Lab& lab) {
      std::vector<double> logits(129, 1.0);
      logits[at] = std::nan("");
      const View loss = lab.of_type(DType::f64, {1}, {0});
      lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                  .logits_TV = lab.values({1, 129}, logits),
                                                  .target_T = lab.ids({64}),
                                                  .scale = 1});
      EXPECT_TRUE(std::isnan(lab.read(loss)[0])) << "NaN at " << at;
    });
}

TEST_P(TokenContract, GradientRowsStandAlone) {
  run([](Lab& lab) {
    const View z = lab.random({33, 257}, 1, 4), row = lab.fresh({1, 257});
    const View loss = lab.of_type(DType::f64, {1}, {0});
    lab.backend.put(queue, kernel::Copy{.dst = row, .src = z.slice(0, 16, 1)});
    const auto targets = some_targets(33);
    lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                .logits_TV = z,
                                                .target_T = lab.ids(targets),
                                                .scale = 0.1,
                                                .logits = Logits::become_gradient});
    lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                .logits_TV = row,
                                                .target_T = lab.ids({targets[16]}),
                                                .scale = 0.1,
                                                .logits = Logits::become_gradient});
    EXPECT_EQ(lab.bytes(row), lab.bytes(z.slice(0, 16, 1)));
  });
}

}  // namespace
}  // namespace trireme
