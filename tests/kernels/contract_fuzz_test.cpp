// Operations on shapes, places and numbers drawn at random, some of which are none: on every
// backend against the oracle, whose NaNs and infinities must be there too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/error_bounds.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/values.hpp"

namespace trireme {
namespace {

class FuzzContract : public ContractTest {
 protected:
  template <class Case>
  void fuzz(const Case& try_case) {
    trireme::fuzz(try_case, [this] { repeat_on_threads(); });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, FuzzContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

using Numbers = std::vector<double>;
constexpr auto queue = Queue::compute;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

// Which numbers that are none, or zero, some arrays of a case have among the others.
enum class Odd : std::uint8_t { none, nan, all };
Odd some_odd(Draw& d) {
  return d.one_of({Odd::none, Odd::none, Odd::none, Odd::nan, Odd::all});
}

Numbers numbers(Draw& d, std::int64_t n, Odd odd = Odd::none, double amplitude = 1,
                double offset = 0) {
  auto values = random_values(n, d.bits(), amplitude);
  for (double& x : values) x += offset;
  if (n == 0 || odd == Odd::none || d.once_in(2)) return values;
  for (auto left = d.between(1, 3); left > 0; --left)
    values[static_cast<std::size_t>(d.between(0, n - 1))] =
        odd == Odd::nan ? nan : d.one_of({nan, inf, -inf, 0.0, -0.0});
  return values;
}

// Where an array begins and ends in its memory, in elements: at what one access moves, or not.
struct Margins {
  std::int64_t before, behind;
};
Margins some_margins(Draw& d) {
  return {d.one_of<std::int64_t>({0, 0, 0, 1, 3, 8}), d.between(1, 5)};
}

// A dense view between elements that nobody may change.
struct Placed {
  using Make = View (Lab::*)(const Shape&, const Numbers&);
  View all, here;
  Margins margins;

  Placed(Lab& lab, Make make, const Shape& s, const Numbers& values, Margins m) : margins(m) {
    constexpr double neighbour = 77;
    Numbers padded(static_cast<std::size_t>(m.before + s.count() + m.behind), neighbour);
    std::ranges::copy(values, padded.begin() + m.before);
    all = (lab.*make)({std::ssize(padded)}, padded);
    here = all.slice(0, m.before, s.count()).reshaped(s);
  }
  void result(Lab& lab, const std::string& name, double slack) const {
    lab.result(name, here, slack);
    lab.result("before " + name, all.slice(0, 0, margins.before), 0);
    lab.result("behind " + name, all.slice(0, all.extent[0] - margins.behind, margins.behind), 0);
  }
};
Numbers unwritten(std::int64_t n) {
  return Numbers(static_cast<std::size_t>(n), nan);
}

// Rows of a norm: narrow, as wide as where a device changes kernels, or a multiple of 8; none, one
// or some of them, and at times more than a device has blocks for.
struct Rows {
  std::int64_t rows, width;
};
Rows some_rows(Draw& d) {
  if (d.once_in(30)) return {d.between(265, 300), d.between(1, 9)};
  if (d.once_in(50)) return {d.between(2113, 2200), d.one_of<std::int64_t>({4, 8})};
  const auto near =
      d.one_of<std::int64_t>({768, 1024, 2048, 4096, 8184}) + d.one_of<std::int64_t>({-1, 0, 8});
  const auto width = d.once_in(4) ? near : d.once_in(3) ? 8 * d.between(1, 130) : d.between(1, 140);
  const auto most = std::clamp<std::int64_t>(8000 / width, 1, 70);
  return {d.once_in(15) ? 0 : d.once_in(6) ? 1 : d.between(1, most), width};
}

std::string describe(const Rows& s) {
  return fmt::format("{} rows of {}", s.rows, s.width);
}

TEST_P(FuzzContract, Dropout) {
  fuzz([&](Draw& d) {
    enum class Into { fresh, x, skip };
    const auto [rows, width] = some_rows(d);
    const auto samples = d.between(1, 3);
    const Shape s{samples, rows, width};
    const auto n = s.count(), t0 = d.once_in(3) ? d.between(0, 1LL << 33) : d.between(0, 5);
    const auto p = d.once_in(5) ? 0.0F : static_cast<float>(d.real(0, 0.97));
    const auto odd = some_odd(d);
    const bool skips = d.once_in(2);
    const auto into =
        skips ? d.one_of({Into::fresh, Into::x, Into::skip}) : d.one_of({Into::fresh, Into::x});
    const auto of_x = numbers(d, n, odd), of_skip = numbers(d, n, odd);
    std::vector<std::int64_t> sample_numbers;
    for (std::int64_t b = 0; b < samples; ++b)
      sample_numbers.push_back(static_cast<std::int64_t>(d.bits() >> d.between(1, 60)));
    const auto key = d.bits();
    const auto at_x = some_margins(d), at_skip = some_margins(d), at_y = some_margins(d);
    compare(fmt::format("{} samples, {}, p {}", samples, describe({rows, width}), p),
            [=](Lab& lab) {
              const Placed x(lab, &Lab::values, s, of_x, at_x);
              const Placed skip(lab, &Lab::values, s, of_skip, at_skip);
              const Placed fresh(lab, &Lab::values, s, unwritten(n), at_y);
              const Placed& y = into == Into::x ? x : into == Into::skip ? skip : fresh;
              lab.backend.put(queue, kernel::Dropout{.y_BTC = y.here,
                                                     .x_BTC = x.here,
                                                     .skip_BTC = skips ? skip.here : View{},
                                                     .key = {key, p},
                                                     .rows = {lab.numbers(sample_numbers), t0}});
              const double size = 1 + 1 / (1 - static_cast<double>(p));
              y.result(lab, "y", 4 * roundoff(wide(lab.tested)) * size);
            });
  });
}

// What norms are drawn from beside their rows.
struct NormCase {
  Rows s;
  bool layer, bias;
  double eps, offset, most;  // |x| <= most
  Odd odd;

  explicit NormCase(Draw& d)
      : s(some_rows(d)),
        layer(d.once_in(2)),
        bias(layer && d.once_in(2)),
        eps(d.one_of({1e-6, 1e-5, 0.1})),
        offset(d.one_of({0.0, 1.0, -20.0})),
        most(std::abs(offset) + 3),
        odd(some_odd(d)) {}
  Numbers x(Draw& d) const { return numbers(d, s.rows * s.width, odd, 3, offset); }
  std::string describe() const {
    return fmt::format("{} norm of {}, eps {}, offset {}", layer ? "layer" : "RMS",
                       trireme::describe(s), eps, offset);
  }
};

TEST_P(FuzzContract, Norm) {
  fuzz([&](Draw& d) {
    const NormCase c(d);
    const auto [rows, width] = c.s;
    const auto of_x = c.x(d), of_w = numbers(d, width, c.odd), of_b = numbers(d, width, c.odd);
    const auto at_x = some_margins(d), at_w = some_margins(d), at_b = some_margins(d),
               at_y = some_margins(d), at_mean = some_margins(d), at_rstd = some_margins(d);
    compare(c.describe(), [=](Lab& lab) {
      const Placed x(lab, &Lab::values, {rows, width}, of_x, at_x);
      const Placed w(lab, &Lab::values, {width}, of_w, at_w);
      const Placed b(lab, &Lab::values, {width}, of_b, at_b);
      const Placed y(lab, &Lab::values, {rows, width}, unwritten(rows * width), at_y);
      const Placed mean(lab, &Lab::wide_values, {rows}, unwritten(rows), at_mean);
      const Placed rstd(lab, &Lab::wide_values, {rows}, unwritten(rows), at_rstd);
      lab.backend.put(queue, kernel::Norm{.y_TC = y.here,
                                          .mean_T = c.layer ? mean.here : View{},
                                          .rstd_T = rstd.here,
                                          .x_TC = x.here,
                                          .w_C = w.here,
                                          .b_C = c.bias ? b.here : View{},
                                          .eps = c.eps});
      const double r = lab.largest(rstd.here);
      const NormErrors e(lab.tested, width, r, c.most);
      if (c.layer) mean.result(lab, "mean", e.sum * c.most);
      rstd.result(lab, "rstd", e.rho * r);
      y.result(lab, "y", e.normal + 4 * e.u * (e.largest + 1));
    });
  });
}

// Backward gets the statistics as forward stored them.
TEST_P(FuzzContract, NormGradient) {
  fuzz([&](Draw& d) {
    const NormCase c(d);
    const auto [rows, width] = c.s;
    const Shape all{rows, width};
    const auto of_x = c.x(d);
    const auto forward = oracle([=](Lab& lab) {
      const View x = lab.values(all, of_x), y = lab.fresh(all);
      const View mean = lab.wide_fresh({rows}), rstd = lab.wide_fresh({rows});
      lab.backend.put(queue, kernel::Norm{.y_TC = y,
                                          .mean_T = c.layer ? mean : View{},
                                          .rstd_T = rstd,
                                          .x_TC = x,
                                          .w_C = lab.random({width}, 1),
                                          .eps = c.eps});
      lab.result("mean", mean, 0);
      lab.result("rstd", rstd, 0);
    });
    const auto which = d.between(1, c.layer ? 7 : 3);
    const bool by_x = which & 1, by_w = which & 2, by_b = which & 4;
    const bool onto = by_x && d.once_in(3), over_dy = by_x && d.once_in(4);
    const auto how = d.one_of({Accumulate::overwrite, Accumulate::add});
    const auto of_dy = numbers(d, all.count(), c.odd), of_dsum = numbers(d, all.count(), c.odd),
               of_w = numbers(d, width, c.odd);
    const auto sums = [&] {
      return how == Accumulate::add ? numbers(d, width, c.odd) : unwritten(width);
    };
    const auto of_dw = sums(), of_db = sums();
    const auto at_x = some_margins(d), at_dy = some_margins(d), at_dsum = some_margins(d),
               at_w = some_margins(d), at_dx = some_margins(d), at_dw = some_margins(d),
               at_db = some_margins(d);
    compare(c.describe(), [=](Lab& lab) {
      const Placed x(lab, &Lab::values, all, of_x, at_x), dy(lab, &Lab::values, all, of_dy, at_dy);
      const Placed dsum(lab, &Lab::values, all, of_dsum, at_dsum);
      const Placed w(lab, &Lab::values, {width}, of_w, at_w);
      const Placed fresh(lab, &Lab::values, all, unwritten(all.count()), at_dx);
      const Placed dw(lab, &Lab::wide_values, {width}, of_dw, at_dw);
      const Placed db(lab, &Lab::wide_values, {width}, of_db, at_db);
      const Placed& dx = over_dy ? dy : fresh;
      const View mean = lab.wide_values({rows}, forward[0].values);
      const View rstd = lab.wide_values({rows}, forward[1].values);
      lab.backend.put(queue, kernel::NormGrad{.dx_TC = by_x ? dx.here : View{},
                                              .dw_C = by_w ? dw.here : View{},
                                              .db_C = by_b ? db.here : View{},
                                              .how = how,
                                              .dsum_TC = onto ? dsum.here : View{},
                                              .dy_TC = dy.here,
                                              .x_TC = x.here,
                                              .w_C = by_x ? w.here : View{},
                                              .mean_T = c.layer ? mean : View{},
                                              .rstd_T = rstd});
      const double r = lab.largest(rstd), terms = static_cast<double>(rows);
      const NormErrors e(lab.tested, width, r, c.most);
      // Rounded once more where dsum is added in a step of its own: |dx| <= r (2 + max|n|).
      const double in_steps = onto ? roundoff(lab.tested) * r * (2 + e.largest) : 0;
      if (by_x) dx.result(lab, "dx", e.dx(r) + in_steps);
      if (by_w) dw.result(lab, "dw", sum_error(lab.tested, rows, terms * e.largest + 1));
      if (by_b) db.result(lab, "db", sum_error(lab.tested, rows, terms + 1));
    });
  });
}

TEST_P(FuzzContract, ResidualNorm) {
  fuzz([&](Draw& d) {
    const NormCase c(d);
    const auto [rows, width] = c.s;
    const auto samples = d.between(1, 2), all_rows = samples * rows;
    const Shape s{samples, rows, width};
    const auto p = d.once_in(3) ? 0.0F : static_cast<float>(d.real(0, 0.9));
    const bool skips = !d.once_in(6), over_x = d.once_in(3);
    const auto of_x = numbers(d, s.count(), c.odd), of_skip = numbers(d, s.count(), c.odd),
               of_w = numbers(d, width, c.odd), of_b = numbers(d, width, c.odd);
    const auto key = d.bits();
    const auto t0 = d.between(0, 9);
    const auto at_x = some_margins(d), at_skip = some_margins(d), at_sum = some_margins(d),
               at_y = some_margins(d), at_w = some_margins(d);
    compare(fmt::format("{}, p {}", c.describe(), p), [=](Lab& lab) {
      const Placed x(lab, &Lab::values, s, of_x, at_x);
      const Placed skip(lab, &Lab::values, s, of_skip, at_skip);
      const Placed fresh(lab, &Lab::values, s, unwritten(s.count()), at_sum);
      const Placed y(lab, &Lab::values, s, unwritten(s.count()), at_y);
      const Placed w(lab, &Lab::values, {width}, of_w, at_w);
      const Placed& sum = over_x ? x : fresh;
      const View mean = lab.wide_fresh({all_rows}), rstd = lab.wide_fresh({all_rows});
      const auto sample = lab.numbers(std::vector<std::int64_t>(3, 11)).slice(0, 0, samples);
      lab.backend.put(queue,
                      kernel::ResidualNorm{.sum_BTC = sum.here,
                                           .y_BTC = y.here,
                                           .mean_T = c.layer ? mean : View{},
                                           .rstd_T = rstd,
                                           .x_BTC = x.here,
                                           .skip_BTC = skips ? skip.here : View{},
                                           .w_C = w.here,
                                           .b_C = c.bias ? lab.values({width}, of_b) : View{},
                                           .eps = c.eps,
                                           .key = {key, p},
                                           .rows = {sample, t0}});
      const double size = 1 + 1 / (1 - static_cast<double>(p));
      const ResidualErrors e(lab.tested, width, lab.largest(rstd), size);
      sum.result(lab, "sum", e.sum);
      if (c.layer) lab.result("mean", mean, e.mean);
      lab.result("rstd", rstd, e.rstd);
      y.result(lab, "y", e.y);
    });
  });
}

TEST_P(FuzzContract, EmbeddingGradient) {
  fuzz([&](Draw& d) {
    const auto vocab = d.one_of<std::int64_t>({1, 2, 17, d.between(1, 300)});
    const auto width = d.once_in(4) ? 8 * d.between(1, 40) : d.between(1, 140);
    const auto most = std::clamp<std::int64_t>(8000 / width, 1, 200);
    const auto rows = d.once_in(15) ? 0 : d.between(1, most);
    const auto rare = d.between(1, 6);  // others are all the same id
    const auto common = d.between(0, vocab - 1);
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < rows; ++t)
      ids.push_back(static_cast<std::int32_t>(d.once_in(rare) ? d.between(0, vocab - 1) : common));
    const auto how = d.one_of({Accumulate::overwrite, Accumulate::add});
    const auto odd = some_odd(d);
    const auto of_dy = numbers(d, rows * width, odd);
    const auto of_table =
        how == Accumulate::add ? numbers(d, vocab * width, odd) : unwritten(vocab * width);
    const auto at_dy = some_margins(d), at_table = some_margins(d);
    compare(fmt::format("{} rows of {}, {} ids", rows, width, vocab), [=](Lab& lab) {
      const Placed dy(lab, &Lab::values, {rows, width}, of_dy, at_dy);
      const Placed dtable(lab, &Lab::wide_values, {vocab, width}, of_table, at_table);
      lab.backend.put(
          queue,
          kernel::EmbeddingGrad{
              .dtable_VC = dtable.here, .how = how, .dy_TC = dy.here, .ids_T = lab.ids(ids)});
      dtable.result(lab, "dtable", sum_error(lab.tested, rows, static_cast<double>(rows + 1)));
    });
  });
}

TEST_P(FuzzContract, CrossEntropy) {
  fuzz([&](Draw& d) {
    const auto near =
        d.one_of<std::int64_t>({1024, 4096, 8192}) + d.one_of<std::int64_t>({-1, 0, 1, 8});
    const auto vocab = d.once_in(5)   ? near
                       : d.once_in(3) ? 8 * d.between(1, 100)
                                      : d.between(1, 400);
    const auto rows =
        d.once_in(15) ? 0 : d.between(1, std::clamp<std::int64_t>(4000 / vocab, 1, 6));
    const double amplitude = d.one_of({0.1, 5.0, 80.0, 1e4}), scale = d.real(1e-4, 2);
    const auto odd = some_odd(d);
    auto of_z = numbers(d, rows * vocab, odd, amplitude);
    const auto masked = d.one_of<std::int64_t>({1, 2, 4, 1000});  // one in so many; 1: all
    std::vector<std::int32_t> targets;
    for (std::int64_t t = 0; t < rows; ++t)
      targets.push_back(
          static_cast<std::int32_t>(d.once_in(masked) ? -1 : d.between(0, vocab - 1)));
    const auto how = d.one_of({Accumulate::overwrite, Accumulate::add});
    const auto after = d.one_of({Logits::keep, Logits::become_gradient});
    const auto at_z = some_margins(d);
    compare(fmt::format("{} rows of {}, amplitude {}", rows, vocab, amplitude), [=](Lab& lab) {
      const Placed z(lab, &Lab::values, {rows, vocab}, of_z, at_z);
      const View loss = lab.of_type(DType::f64, {1}, {how == Accumulate::add ? 1.5 : nan});
      lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                  .how = how,
                                                  .logits_TV = z.here,
                                                  .target_T = lab.ids(targets),
                                                  .scale = scale,
                                                  .logits = after});
      const CrossEntropyErrors e(lab.tested, vocab, amplitude);
      lab.result("loss", loss, static_cast<double>(rows) * e.loss);
      z.result(lab, "logits", after == Logits::keep ? 0 : scale * 2 * e.relative);
    });
  });
}

// With |g| <= G after scaling, |m| <= M and v >= least the step is at most
// lr M / c1 / (sqrt(least / c2) + eps), c1 and c2 the corrections, and off by 14 roundings of that:
// 4 of m, 7 of the root, 3 of its own; m by 4 of M, v by 7 of itself. An infinite weight is left
// out: formulas of equal value differ there.
TEST_P(FuzzContract, AdamW) {
  fuzz([&](Draw& d) {
    const bool first = d.once_in(3);  // of all steps: moments are 0
    const rule::AdamW rule{.beta1 = d.one_of({0.0, 0.5, 0.9, 0.99}),
                           .beta2 = d.one_of({0.9, 0.95, 0.999}),
                           .eps = d.one_of({1e-8, 1e-6, 1e-3})};
    const UpdateFactors factors{.lr = d.real(1e-5, 0.3),
                                .decay = d.one_of({0.0, 0.1, 0.3}),
                                .scale = d.one_of({1.0, 0.5, 1e-3}),
                                .count = first ? 1 : d.one_of<std::int64_t>({1, 2, 10, 1000000})};
    struct Cut {
      std::int64_t begin, count;
    };
    std::vector<Cut> cuts;
    std::int64_t n = d.between(0, 3);
    for (auto left = d.once_in(10) ? 40 : d.between(1, 4); left > 0; --left) {
      const auto count = d.once_in(8) ? 0 : d.once_in(4) ? d.between(1, 5000) : d.between(1, 200);
      cuts.push_back({n, count});
      n += count + d.between(0, 3);
    }
    const bool copies = d.once_in(2);
    const auto odd = some_odd(d);
    const auto of_w = numbers(d, n, odd == Odd::none ? odd : Odd::nan);
    auto of_g = random_values(n, d.bits(), 3);
    auto of_m = first ? Numbers(of_g.size()) : numbers(d, n, odd);
    auto of_v = first ? Numbers(of_g.size()) : numbers(d, n, odd, 0.5, 0.6);
    if (first)
      for (double& g : of_g) g = std::copysign(0.5 + std::abs(g) / 6, g);
    const auto spoilt = numbers(d, n, odd);
    for (std::size_t i = 0; i < of_g.size(); ++i)
      if (!std::isfinite(spoilt[i])) of_g[i] = spoilt[i];
    if (!first)
      for (double& v : of_v) v = v == 0 ? 0.1 : std::abs(v);
    const auto at_w = some_margins(d), at_g = some_margins(d), at_m = some_margins(d),
               at_v = some_margins(d), at_copy = some_margins(d);
    const double most_g = (first ? 1 : 3) * factors.scale, most_m = first ? 0 : 1;
    const double M = rule.beta1 * most_m + (1 - rule.beta1) * most_g;
    const double G2 = most_g * most_g, most_v = first ? 0 : 1.1;
    const double least = first ? (1 - rule.beta2) * G2 / 4 : rule.beta2 * 0.1;
    const auto count = static_cast<double>(factors.count);
    const double c1 = 1 - std::pow(rule.beta1, count), c2 = 1 - std::pow(rule.beta2, count);
    const double step = factors.lr * M / c1 / (std::sqrt(least / c2) + rule.eps);
    compare(fmt::format("{} weights in {} shards, count {}", n, cuts.size(), factors.count),
            [=](Lab& lab) {
              const Placed w(lab, &Lab::wide_values, {n}, of_w, at_w);
              const Placed g(lab, &Lab::wide_values, {n}, of_g, at_g);
              const Placed m(lab, &Lab::wide_values, {n}, of_m, at_m);
              const Placed v(lab, &Lab::wide_values, {n}, of_v, at_v);
              const Placed copy(lab, &Lab::values, {n}, unwritten(n), at_copy);
              kernel::Update o{.rule = rule, .shards = {}};
              for (const auto& [begin, length] : cuts) {
                const auto cut = [&](const Placed& p) { return p.here.slice(0, begin, length); };
                o.shards.push_back({.master_N = cut(w),
                                    .copy_N = copies ? cut(copy) : View{},
                                    .grad_N = cut(g),
                                    .state_N = {cut(m), cut(v)},
                                    .factors = factors});
              }
              lab.backend.put(queue, o);
              const double u = roundoff(wide(lab.tested)), slack = u * (14 * step + 4 * (1 + step));
              w.result(lab, "w", slack);
              m.result(lab, "m", 4 * u * M);
              v.result(lab, "v", 7 * u * (rule.beta2 * most_v + (1 - rule.beta2) * G2));
              copy.result(lab, "copy", tolerance(wide(lab.tested), 1 + step, slack));
            });
  });
}

}  // namespace
}  // namespace trireme
