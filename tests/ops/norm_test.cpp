#include "lib/ops/norm.hpp"

#include <algorithm>
#include <cmath>

#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 3, T = 5, C = 19;
constexpr double offset = 0.5, amplitude = 2, most = offset + amplitude, eps = 1e-5;  // of x
enum class Flavour { layer, rms };

OpNumbers inputs() {
  auto x = random_numbers({B, T, C}, 1, amplitude);
  for (double& v : x.values) v += offset;
  return x;
}

double largest_rstd(const OpNumbers& x, Flavour kind) {
  double largest = 0;
  for (std::size_t row = 0; row < x.values.size(); row += C) {
    double mean = 0, square = 0;
    for (std::size_t i = row; i < row + C; ++i) {
      mean += x.values[i] / C;
      square += x.values[i] * x.values[i] / C;
    }
    const double variance = kind == Flavour::layer ? square - mean * mean : square;
    largest = std::max(largest, 1 / std::sqrt(variance + eps));
  }
  return largest;
}

// n = (x - mean) rstd, at most `largest`, is off by `normal`: contract_norm_test.cpp. So backward,
// dx = rstd (g - mean(g) - n mean(g n)) with |g| <= 1 and mean |g n| <= 1, gets an rstd that is
// relatively off by rho, and n twice.
OpCase::Slack slack(const OpNumbers& x, Flavour kind) {
  const double u = roundoff(DType::f32), r = largest_rstd(x, kind), rows = B * T;
  const double sum = sum_error(DType::f32, C, 1), centred = (sum + 2 * u) * most;
  const double rho = sum / 2 + centred * r + 6 * u, largest = 2 * most * r;
  const double normal = r * centred + largest * (rho + 2 * u);
  OpCase::Slack s;
  s.y = normal + 4 * u * (largest + 1);
  s.in = {r * (1 + largest) * (2 * sum + 12 * u) +
          r * ((2 + largest) * rho + (1 + largest) * normal)};
  s.params = {rows * normal + sum_error(DType::f32, B * T, rows * largest + 1),
              sum_error(DType::f32, B * T, rows + 1)};
  return s;
}

OpCase norm(std::string name, Flavour kind, bool bias) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) -> std::unique_ptr<Op> {
    if (kind == Flavour::rms) return std::make_unique<ops::RmsNorm>(ParamId{0}, eps);
    return std::make_unique<ops::LayerNorm>(ParamId{0}, bias ? ParamId{1} : ParamId{}, eps);
  };
  c.in = {inputs()};
  c.params = {random_numbers({C}, 2)};
  if (bias) c.params.push_back(random_numbers({C}, 3));
  c.grad_out = random_numbers({B, T, C}, 4);
  c.rows = B * T;
  c.slack = slack(c.in[0], kind);
  return c;
}

}  // namespace

std::vector<OpCase> norm_cases() {
  return {norm("layer norm", Flavour::layer, true),
          norm("layer norm without bias", Flavour::layer, false),
          norm("RMS norm", Flavour::rms, false)};
}

}  // namespace trireme
