#include <fmt/format.h>

#include <cmath>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

struct Size {
  std::int64_t rows, width;
  double eps;
};

std::vector<Size> sizes() {
  std::vector<Size> all;
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

// With e = sum_error(C, 1), the relative error of a sum of C positive terms:
//   mean        e max|x|
//   x - mean    that and a rounding of it: d
//   variance    relatively e, and 2 d / sqrt(variance) <= 2 d rstd
//   rstd        relatively half of that and a few roundings: rho
struct Errors {
  Errors(DType t, std::int64_t width, double rstd)
      : u(roundoff(wide(t))),
        sum(sum_error(t, width, 1)),
        centred((sum + 2 * u) * most),
        rho(sum / 2 + centred * rstd + 6 * u),
        largest(2 * most * rstd),
        normal(rstd * centred + largest * (rho + 2 * u)) {}
  double u, sum, centred, rho;
  double largest;  // bound of n = (x - mean) rstd
  double normal;   // error of n
};

TEST_P(NormContract, LayerNorm) {
  for (const Size& s : sizes())
    for (const bool with_bias : {true, false})
      compare(describe(s), [=](Lab& lab) {
        const View x = inputs(lab, s), w = lab.random({s.width}, 2), b = lab.random({s.width}, 3);
        const View y = lab.fresh({s.rows, s.width});
        const View mean = lab.wide_fresh({s.rows}), rstd = lab.wide_fresh({s.rows});
        lab.backend.layer_norm(queue, y, mean, rstd, x, w, with_bias ? b : View{}, s.eps);
        const double r = lab.largest(rstd);
        const Errors e(lab.tested, s.width, r);
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
      lab.backend.rms_norm(queue, y, rstd, x, w, s.eps);
      const double r = lab.largest(rstd);
      const Errors e(lab.tested, s.width, r);
      lab.result("rstd", rstd, e.rho * r);
      lab.result("y", y, e.normal + 4 * e.u * e.largest);
    });
}

// dw and db are sums over T rows of terms below max|n|; dx = rstd (g - mean(g) - n mean(g n)) with
// |g| <= 1, mean|g n| <= 1 has an error of rstd (1 + max|n|) times that of the means.
void NormContract::check_gradient(const Size& s, Norm norm, const Wants& wants, Accumulate how) {
  // Backward gets the statistics as forward stored them.
  const auto forward = oracle([=](Lab& lab) {
    const View x = inputs(lab, s), y = lab.fresh({s.rows, s.width}), w = lab.random({s.width}, 2);
    const View mean = lab.wide_values({s.rows}, std::vector<double>(std::size_t(s.rows)));
    const View rstd = lab.wide_fresh({s.rows});
    if (norm == Norm::layer)
      lab.backend.layer_norm(queue, y, mean, rstd, x, w, {}, s.eps);
    else
      lab.backend.rms_norm(queue, y, rstd, x, w, s.eps);
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
    if (norm == Norm::layer)
      lab.backend.layer_norm_grad(queue, dx, dw, db, how, dy, x, w, mean, rstd);
    else
      lab.backend.rms_norm_grad(queue, dx, dw, how, dy, x, w, rstd);
    const double r = lab.largest(rstd);
    const Errors e(lab.tested, s.width, r);
    const double n = e.largest, terms = static_cast<double>(s.rows);
    if (dx) lab.result("dx", dx, r * (1 + n) * (2 * e.sum + 12 * e.u));
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
      check_gradient({33, 65, 1e-5}, Norm::layer, wants, how);
}

TEST_P(NormContract, RmsNormGradient) {
  for (const Size& s : sizes()) {
    check_gradient(s, Norm::rms, {true, true, false}, Accumulate::overwrite);
    check_gradient(s, Norm::rms, {true, true, false}, Accumulate::add);
  }
}

TEST_P(NormContract, RmsNormGradientLeavesOutWhatNobodyWants) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add}) {
    check_gradient({33, 65, 1e-5}, Norm::rms, {false, true, false}, how);
    check_gradient({33, 65, 1e-5}, Norm::rms, {true, false, false}, how);
  }
}

// A row has the same bits alone.
TEST_P(NormContract, RowsStandAlone) {
  run([](Lab& lab) {
    const Size s{33, 129, 1e-5};
    const View x = inputs(lab, s), w = lab.random({s.width}, 2);
    const View y = lab.fresh({33, 129}), alone = lab.fresh({1, 129});
    const View mean = lab.wide_fresh({33}), rstd = lab.wide_fresh({33});
    lab.backend.layer_norm(queue, y, mean, rstd, x, w, {}, s.eps);
    lab.backend.layer_norm(queue, alone, mean.slice(0, 0, 1), rstd.slice(0, 0, 1),
                           x.slice(0, 17, 1), w, {}, s.eps);
    EXPECT_EQ(lab.bytes(alone), lab.bytes(y.slice(0, 17, 1)));
    lab.backend.rms_norm(queue, y, rstd, x, w, s.eps);
    lab.backend.rms_norm(queue, alone, rstd.slice(0, 0, 1), x.slice(0, 17, 1), w, s.eps);
    EXPECT_EQ(lab.bytes(alone), lab.bytes(y.slice(0, 17, 1)));
  });
}

}  // namespace
}  // namespace trireme
