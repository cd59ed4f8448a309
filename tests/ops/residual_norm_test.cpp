#include "lib/ops/residual_norm.hpp"

#include "kernels/ref/ref.hpp"
#include "tests/ops/cases.hpp"
#include "tests/ops/norm_slack.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 3, T = 5, C = 19, site = 4;
constexpr double eps = 1e-5, amplitude = 2;  // of skip and branch
const double u = roundoff(DType::f32);

OpCase residual_norm(std::string name, NormKind kind, bool bias, double p) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::ResidualNorm>(
        ops::DropoutSite{site, p},
        ops::NormWeights{kind, ParamId{0}, bias ? ParamId{1} : ParamId{}, eps});
  };
  c.in = {random_numbers({B, T, C}, 1, amplitude), random_numbers({B, T, C}, 2, amplitude)};
  c.params = {random_numbers({C}, 3)};
  if (bias) c.params.push_back(random_numbers({C}, 4));
  c.grad_out = random_numbers({B, T, C}, 5);
  c.more_grad_out = {random_numbers({B, T, C}, 6)};
  c.rows = B * T;
  c.pass.seed = 3;
  c.pass.step = 11;
  c.samples = {7, (std::int64_t{1} << 40) + 3, 0};
  c.t0 = 2;
  c.slack = {0, {0, 0}, {0, 0}, {0}};
  Ask ask;
  ask.record = false;
  const OpNumbers sum{
      {B, T, C},
      run_op([] { return std::make_unique<Ref>(); }, DType::f64, c, ask)["y"].values,
      {}};
  const double kept = 1 / (1 - p), most = amplitude * (1 + kept), rounded = 4 * u * most;
  const auto norm = norm_slack(sum, kind, eps, most, rounded);
  // dskip = dsum + dx of the norm, whose size is at most rstd (2 + largest).
  const double r = largest_rstd(sum, kind, eps);
  const double size = 1 + r * (2 + 2 * most * r), skip = norm.in[0] + 2 * u * size;
  c.slack = {rounded, {skip, kept * (skip + 4 * u * size)}, norm.params, {norm.y}};
  return c;
}

}  // namespace

std::vector<OpCase> residual_norm_cases() {
  return {residual_norm("residual and layer norm", NormKind::layer, true, 0.3),
          residual_norm("residual and layer norm without bias", NormKind::layer, false, 0),
          residual_norm("residual and RMS norm", NormKind::rms, false, 0),
          residual_norm("residual and RMS norm with dropout", NormKind::rms, false, 0.3)};
}

}  // namespace trireme
