#include <fmt/format.h>

#include <cmath>

#include "tests/kernels/error_bounds.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

struct Size {
  std::int64_t rows, width;
  double eps;
};

// A device has other kernels for wider rows, and for those that are a multiple of what one access
// moves; of more rows than it takes at once it adds up sums.
std::vector<Size> sizes() {
  std::vector<Size> all{{9, 72, 1e-5},   {7, 776, 1e-5},  {5, 1600, 1e-5},
                        {5, 2312, 1e-5}, {3, 4104, 1e-5}, {2150, 16, 1e-5}};
  for (const std::int64_t rows : {1, 5, 33})
    for (const std::int64_t width : {1, 7, 65, 129, 768})
      for (const double eps : {1e-5, 0.1}) all.push_back({rows, width, eps});
  return all;
}

std::string describe(const Size& s) {
  return fmt::format("rows {} width {} eps {}", s.rows, s.width, s.eps);
}

enum class Norm { layer, rms };
struct Wants {
  bool dx, dw, db;
};

class NormContract : public ContractTest {
 protected:
  void check_gradient(const Size&, Norm, const Wants&, Accumulate);
  void check_residual(const Size&, Norm, float p, bool over_branch);
  void check_residual_gradient(const Size&, Norm, const Wants&);
};
INSTANTIATE_TEST_SUITE_P(Backends, NormContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;
constexpr double offset = 1, amplitude = 3, most = offset + amplitude;  // of x

// [T, C] around `offset`, so that a mean stands out.
View inputs(Lab& lab, const Size& s) {
  auto v = lab.read(lab.wide_random({s.rows, s.width}, 1, amplitude));
  for (double& x : v) x += offset;
  return lab.values({s.rows, s.width}, v);
}

TEST_P(NormContract, LayerNorm) {
  for (const Size& s : sizes())
    for (const bool with_bias : {true, false})
      compare(describe(s), [=](Lab& lab) {
        const View x = inputs(lab, s), w = lab.random({s.width}, 2), b = lab.random({s.width}, 3);
        const View y = lab.fresh({s.rows, s.width});
        const View mean = lab.wide_fresh({s.rows}), rstd = lab.wide_fresh({s.rows});
        lab.backend.put(queue, kernel::Norm{.y_TC = y,
                                            .mean_T = mean,
                                            .rstd_T = rstd,
                                            .x_TC = x,
                                            .w_C = w,
                                            .b_C = with_bias ? b : View{},
                                            .eps = s.eps});
        const double r = lab.largest(rstd);
        const NormErrors e(lab.tested, s.width, r, most);
        lab.result("mean", mean, e.sum * most);
        lab.result("rstd", rstd, e.rho * r);
        lab.result("y", y, e.normal + 4 * e.u * (e.largest + 1));
      });
}

TEST_P(NormContract, RmsNorm) {
  for (const Size& s : sizes())
    compare(describe(s), [s](Lab& lab) {
      const View x = inputs(lab, s), w = lab.random({s.width}, 2);
      const View y = lab.fresh({s.rows, s.width}), rstd = lab.wide_fresh({s.rows});
      lab.backend.put(queue,
                      kernel::Norm{.y_TC = y, .rstd_T = rstd, .x_TC = x, .w_C = w, .eps = s.eps});
      const double r = lab.largest(rstd);
      const NormErrors e(lab.tested, s.width, r, most);
      lab.result("rstd", rstd, e.rho * r);
      lab.result("y", y, e.normal + 4 * e.u * e.largest);
    });
}

void NormContract::check_gradient(const Size& s, Norm norm, const Wants& wants, Accumulate how) {
  // Backward gets the statistics as forward stored them.
  const auto forward = oracle([=](Lab& lab) {
    const View x = inputs(lab, s), y = lab.fresh({s.rows, s.width}), w = lab.random({s.width}, 2);
    const View mean = lab.wide_values({s.rows}, std::vector<double>(std::size_t(s.rows)));
    const View rstd = lab.wide_fresh({s.rows});
    lab.backend.put(queue, kernel::Norm{.y_TC = y,
                                        .mean_T = norm == Norm::layer ? mean : View{},
                                        .rstd_T = rstd,
                                        .x_TC = x,
                                        .w_C = w,
                                        .eps = s.eps});
    lab.result("mean", mean, 0);
    lab.result("rstd", rstd, 0);
  });
  compare(describe(s), [=](Lab& lab) {
    const View x = inputs(lab, s), w = lab.random({s.width}, 2);
    const View dy = lab.random({s.rows, s.width}, 3);
    const View mean = lab.wide_values({s.rows}, forward[0].values);
    const View rstd = lab.wide_values({s.rows}, forward[1].values);
    const bool adds = how == Accumulate::add;
    const auto sums = [&](bool wanted, std::uint64_t seed) {
      if (!wanted) return View{};
      return adds ? lab.wide_random({s.width}, seed) : lab.wide_fresh({s.width});
    };
    const View dx = wants.dx ? lab.fresh({s.rows, s.width}) : View{};
    const View dw = sums(wants.dw, 4), db = sums(wants.db, 5);
    lab.backend.put(queue, kernel::NormGrad{.dx_TC = dx,
                                            .dw_C = dw,
                                            .db_C = db,
                                            .how = how,
                                            .dy_TC = dy,
                                            .x_TC = x,
                                            .w_C = wants.dx ? w : View{},
                                            .mean_T = norm == Norm::layer ? mean : View{},
                                            .rstd_T = rstd});
    const double r = lab.largest(rstd);
    const NormErrors e(lab.tested, s.width, r, most);
    const double n = e.largest, terms = static_cast<double>(s.rows);
    if (dx) lab.result("dx", dx, e.dx(r));
    if (dw) lab.result("dw", dw, sum_error(lab.tested, s.rows, terms * n + 1));
    if (db) lab.result("db", db, sum_error(lab.tested, s.rows, terms + 1));
  });
}

TEST_P(NormContract, LayerNormGradient) {
  for (const Size& s : sizes()) {
    check_gradient(s, Norm::layer, {true, true, true}, Accumulate::overwrite);
    check_gradient(s, Norm::layer, {true, true, true}, Accumulate::add);
  }
}

TEST_P(NormContract, LayerNormGradientLeavesOutWhatNobodyWants) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    for (const Wants& wants :
         {Wants{false, true, true}, Wants{true, false, false}, Wants{true, true, false},
          Wants{true, false, true}, Wants{false, true, false}, Wants{false, false, true}})
      for (const std::int64_t width : {65, 72})
        check_gradient({33, width, 1e-5}, Norm::layer, wants, how);
}

// More groups of wide rows than a device has blocks for.
TEST_P(NormContract, GradientOfManyRows) {
  for (const auto norm : {Norm::layer, Norm::rms})
    for (const Size& s :
         {Size{on_device() ? 1077 : 77, 776, 1e-5}, Size{on_device() ? 805 : 5, 1032, 1e-5}})
      check_gradient(s, norm, {true, true, norm == Norm::layer}, Accumulate::overwrite);
}

TEST_P(NormContract, RmsNormGradient) {
  for (const Size& s : sizes()) {
    check_gradient(s, Norm::rms, {true, true, false}, Accumulate::overwrite);
    check_gradient(s, Norm::rms, {true, true, false}, Accumulate::add);
  }
}

TEST_P(NormContract, RmsNormGradientMayTakeTheMemoryOfWhatComesIn) {
  for (const Size& s : sizes())
    run([&](Lab& lab) {
      const View x = inputs(lab, s), w = lab.random({s.width}, 2);
      const View y = lab.fresh({s.rows, s.width}), rstd = lab.wide_fresh({s.rows});
      lab.backend.put(queue,
                      kernel::Norm{.y_TC = y, .rstd_T = rstd, .x_TC = x, .w_C = w, .eps = s.eps});
      const View dy = lab.random({s.rows, s.width}, 3), both = lab.random({s.rows, s.width}, 3);
      const View dx = lab.fresh({s.rows, s.width});
      const View dw = lab.wide_fresh({s.width}), dw_both = lab.wide_fresh({s.width});
      kernel::NormGrad o{.dx_TC = dx, .dw_C = dw, .dy_TC = dy, .x_TC = x, .w_C = w, .rstd_T = rstd};
      lab.backend.put(queue, o);
      o.dx_TC = both;
      o.dy_TC = both;
      o.dw_C = dw_both;

      lab.backend.put(queue, o);

      EXPECT_EQ(lab.bytes(both), lab.bytes(dx)) << describe(s);
      EXPECT_EQ(lab.bytes(dw_both), lab.bytes(dw)) << describe(s);
    });
}

TEST_P(NormContract, RmsNormGradientLeavesOutWhatNobodyWants) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add}) {
    check_gradient({33, 65, 1e-5}, Norm::rms, {false, true, false}, how);
    check_gradient({33, 65, 1e-5}, Norm::rms, {true, false, false}, how);
  }
}

// Of x = skip + dropout(branch), whose parts are at most 2.
void NormContract::check_residual(const Size& s, Norm norm, float p, bool over_branch) {
  compare(fmt::format("{} p {}", describe(s), p), [=](Lab& lab) {
    const Shape all{2, s.rows, s.width};
    const View branch = lab.random(all, 1, 2), skip = lab.random(all, 2, 2);
    const View w = lab.random({s.width}, 3);
    const View b = norm == Norm::layer ? lab.random({s.width}, 4) : View{};
    const View sum = over_branch ? branch : lab.fresh(all), y = lab.fresh(all);
    const View mean = norm == Norm::layer ? lab.wide_fresh({2 * s.rows}) : View{};
    const View rstd = lab.wide_fresh({2 * s.rows});
    const SampleRows rows{lab.numbers({7, 3}), 5};
    lab.backend.put(queue, kernel::ResidualNorm{.sum_BTC = sum,
                                                .y_BTC = y,
                                                .mean_T = mean,
                                                .rstd_T = rstd,
                                                .x_BTC = branch,
                                                .skip_BTC = skip,
                                                .w_C = w,
                                                .b_C = b,
                                                .eps = s.eps,
                                                .key = {0x123456789abcdefULL, p},
                                                .rows = rows});
    const double size = 2 + 2 / (1 - static_cast<double>(p)), r = lab.largest(rstd);
    const ResidualErrors e(lab.tested, s.width, r, size);
    lab.result("sum", sum, e.sum);
    if (mean) lab.result("mean", mean, e.mean);
    lab.result("rstd", rstd, e.rstd);
    lab.result("y", y, e.y);
  });
}

TEST_P(NormContract, ResidualNorm) {
  for (const Size& s : sizes()) {
    check_residual(s, Norm::layer, 0.3F, false);
    check_residual(s, Norm::rms, 0, true);
  }
}

// dx = dsum + the norm's, beside what the norm alone gives.
void NormContract::check_residual_gradient(const Size& s, Norm norm, const Wants& wants) {
  run([=](Lab& lab) {
    const Shape all{s.rows, s.width};
    const View x = inputs(lab, s), y = lab.fresh(all), w = lab.random({s.width}, 2);
    const View mean = norm == Norm::layer ? lab.wide_fresh({s.rows}) : View{};
    const View rstd = lab.wide_fresh({s.rows});
    lab.backend.put(
        queue,
        kernel::Norm{.y_TC = y, .mean_T = mean, .rstd_T = rstd, .x_TC = x, .w_C = w, .eps = s.eps});
    const View dy = lab.random(all, 3), dsum = lab.random(all, 4);
    const View alone = lab.fresh(all), dx = wants.dx ? lab.fresh(all) : View{};
    const View dw = lab.wide_fresh({s.width});
    const View db = norm == Norm::layer ? lab.wide_fresh({s.width}) : View{};
    const View dw_alone = lab.wide_fresh({s.width});
    const View db_alone = norm == Norm::layer ? lab.wide_fresh({s.width}) : View{};
    lab.backend.put(queue, kernel::NormGrad{.dx_TC = dx,
                                            .dw_C = dw,
                                            .db_C = db,
                                            .dsum_TC = dsum,
                                            .dy_TC = dy,
                                            .x_TC = x,
                                            .w_C = w,
                                            .mean_T = mean,
                                            .rstd_T = rstd});
    lab.backend.put(queue, kernel::NormGrad{.dx_TC = alone,
                                            .dw_C = dw_alone,
                                            .db_C = db_alone,
                                            .dy_TC = dy,
                                            .x_TC = x,
                                            .w_C = w,
                                            .mean_T = mean,
                                            .rstd_T = rstd});
    EXPECT_EQ(lab.bytes(dw), lab.bytes(dw_alone));
    if (db) {
      EXPECT_EQ(lab.bytes(db), lab.bytes(db_alone));
    }
    if (!dx) return;
    const auto got = lab.read(dx), want = lab.read(alone), added = lab.read(dsum);
    // Rounded once more where it is done in two steps.
    const double u = roundoff(lab.compute);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want[i] + added[i],
                  u * (std::fabs(want[i]) + std::fabs(got[i])) + 4 * u * u)
          << describe(s) << " element " << i;
  });
}

TEST_P(NormContract, ResidualNormGradient) {
  for (const Size& s : sizes())
    for (const auto norm : {Norm::layer, Norm::rms}) {
      check_residual_gradient(s, norm, {true, true, true});
      check_residual_gradient(s, norm, {false, true, true});
    }
}

// A row has the same bits alone.
TEST_P(NormContract, RowsStandAlone) {
  run([](Lab& lab) {
    const Size s{33, 129, 1e-5};
    const View x = inputs(lab, s), w = lab.random({s.width}, 2);
    const View y = lab.fresh({33, 129}), alone = lab.fresh({1, 129});
    const View mean = lab.wide_fresh({33}), rstd = lab.wide_fresh({33});
    lab.backend.put(
        queue,
        kernel::Norm{.y_TC = y, .mean_T = mean, .rstd_T = rstd, .x_TC = x, .w_C = w, .eps = s.eps});
    lab.backend.put(queue, kernel::Norm{.y_TC = alone,
                                        .mean_T = mean.slice(0, 0, 1),
                                        .rstd_T = rstd.slice(0, 0, 1),
                                        .x_TC = x.slice(0, 17, 1),
                                        .w_C = w,
                                        .eps = s.eps});
    EXPECT_EQ(lab.bytes(alone), lab.bytes(y.slice(0, 17, 1)));
    lab.backend.put(queue,
                    kernel::Norm{.y_TC = y, .rstd_T = rstd, .x_TC = x, .w_C = w, .eps = s.eps});
    lab.backend.put(queue, kernel::Norm{.y_TC = alone,
                                        .rstd_T = rstd.slice(0, 0, 1),
                                        .x_TC = x.slice(0, 17, 1),
                                        .w_C = w,
                                        .eps = s.eps});
    EXPECT_EQ(lab.bytes(alone), lab.bytes(y.slice(0, 17, 1)));
  });
}

}  // namespace
}  // namespace trireme
