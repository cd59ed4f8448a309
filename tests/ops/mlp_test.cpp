#include "lib/ops/mlp.hpp"

#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 2, T = 5, C = 19, F = 21;

// x, w, b and dy are below 1, so |z| and |h| are below C + 1 and |dh| below C. GELU's slope is
// below 1.13 and its second derivative below 0.8; both kernels add some roundings of their own.
// What is stored in between is rounded to f32.
OpCase::Slack slack(bool bias) {
  constexpr auto t = DType::f32;
  constexpr double rows = B * T, most_h = C + 1, most_dh = C, most_dz = 1.13 * most_dh;
  const double u = roundoff(t);
  const auto stored = [](double most, double error) { return tolerance(t, most, error); };
  const double z = stored(most_h, sum_error(t, C + 1, C + 1));
  const double h = stored(most_h, 1.13 * z + 8 * u * most_h);
  const double dh = stored(most_dh, sum_error(t, C, most_dh));
  const double dz = stored(most_dz, 1.13 * dh + most_dh * (0.8 * z + 16 * u));
  const double dw1 = rows * dz + sum_error(t, B * T, rows * most_dz);
  const double dw2 = rows * h + sum_error(t, B * T, rows * most_h);
  const double db2 = sum_error(t, B * T, rows);
  OpCase::Slack s;
  s.y = F * h + sum_error(t, F + 1, F * most_h + 1);
  s.in = {F * dz + sum_error(t, F, F * most_dz)};
  s.params = bias ? std::vector{dw1, dw1, dw2, db2} : std::vector{dw1, dw2};
  return s;
}

OpCase mlp(std::string name, bool bias) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Mlp>(
        ops::Linear({0}, bias ? ParamId{1} : ParamId{}, F), Activation::gelu,
        ops::Linear({bias ? 2 : 1}, bias ? ParamId{3} : ParamId{}, C));
  };
  c.in = {random_numbers({B, T, C}, 1)};
  c.params.push_back(random_numbers({F, C}, 2));
  if (bias) c.params.push_back(random_numbers({F}, 3));
  c.params.push_back(random_numbers({C, F}, 4));
  if (bias) c.params.push_back(random_numbers({C}, 5));
  c.grad_out = random_numbers({B, T, C}, 6);
  c.rows = B * T;
  c.slack = slack(bias);
  return c;
}

}  // namespace

std::vector<OpCase> mlp_cases() {
  return {mlp("mlp", true), mlp("mlp without bias", false)};
}

}  // namespace trireme
