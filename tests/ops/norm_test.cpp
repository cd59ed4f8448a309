#include "lib/ops/norm.hpp"

#include "tests/ops/cases.hpp"
#include "tests/ops/norm_slack.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 3, T = 5, C = 19;
constexpr double offset = 0.5, amplitude = 2, most = offset + amplitude, eps = 1e-5;  // of x

OpNumbers inputs() {
  auto x = random_numbers({B, T, C}, 1, amplitude);
  for (double& v : x.values) v += offset;
  return x;
}

OpCase norm(std::string name, NormKind kind, bool bias) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) -> std::unique_ptr<Op> {
    return std::make_unique<ops::Norm>(
        ops::NormWeights{kind, ParamId{0}, bias ? ParamId{1} : ParamId{}, eps});
  };
  c.in = {inputs()};
  c.params = {random_numbers({C}, 2)};
  if (bias) c.params.push_back(random_numbers({C}, 3));
  c.grad_out = random_numbers({B, T, C}, 4);  // of x, as others send it back
  c.more_grad_out = {random_numbers({B, T, C}, 5)};
  c.rows = B * T;
  const auto norm = norm_slack(c.in[0], kind, eps, most, 0);
  // dx = dsum + dx of the norm, whose size is at most rstd (2 + largest).
  const double r = largest_rstd(c.in[0], kind, eps), size = 1 + r * (2 + 2 * most * r);
  c.slack = {0, {norm.in[0] + 2 * roundoff(DType::f32) * size}, norm.params, {norm.y}};
  return c;
}

}  // namespace

std::vector<OpCase> norm_cases() {
  return {norm("layer norm", NormKind::layer, true),
          norm("layer norm without bias", NormKind::layer, false),
          norm("RMS norm", NormKind::rms, false)};
}

}  // namespace trireme
