// Norms, forward and backward, on what is drawn at random.
#include <algorithm>
#include <cmath>

#include "tests/kernels/error_bounds.hpp"
#include "tests/kernels/fuzz.hpp"

namespace trireme::fuzzing {
namespace {

class NormFuzzContract : public FuzzContract {};
INSTANTIATE_TEST_SUITE_P(Backends, NormFuzzContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

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
                       fuzzing::describe(s), eps, offset);
  }
};

// What an infinite weight multiplies may be of either sign by rounding: there is none.
static Numbers weights(Draw& d, std::int64_t width, Odd odd) {
  auto w = numbers(d, width, odd);
  std::ranges::replace_if(
      w, [](double x) { return std::isinf(x); }, 2.0);
  return w;
}

TEST_P(NormFuzzContract, Norm) {
  fuzz([&](Draw& d) {
    const NormCase c(d);
    const auto [rows, width] = c.s;
    const auto of_x = c.x(d), of_w = weights(d, width, c.odd), of_b = numbers(d, width, c.odd);
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
TEST_P(NormFuzzContract, NormGradient) {
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

TEST_P(NormFuzzContract, ResidualNorm) {
  fuzz([&](Draw& d) {
    const NormCase c(d);
    const auto [rows, width] = c.s;
    const auto samples = d.between(1, 2), all_rows = samples * rows;
    const Shape s{samples, rows, width};
    const auto p = d.once_in(3) ? 0.0F : static_cast<float>(d.real(0, 0.9));
    const bool skips = !d.once_in(6), over_x = d.once_in(3);
    const auto of_x = numbers(d, s.count(), c.odd), of_skip = numbers(d, s.count(), c.odd),
               of_w = weights(d, width, c.odd), of_b = numbers(d, width, c.odd);
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

}  // namespace
}  // namespace trireme::fuzzing
