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
  c.grad_out = random_numbers({B, T, C}, 4);
  c.rows = B * T;
  c.slack = norm_slack(c.in[0], kind, eps, most, 0);
  return c;
}

}  // namespace

std::vector<OpCase> norm_cases() {
  return {norm("layer norm", NormKind::layer, true),
          norm("layer norm without bias", NormKind::layer, false),
          norm("RMS norm", NormKind::rms, false)};
}

}  // namespace trireme
