#include "lib/ops/linear.hpp"

#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 2, T = 5, C = 19, N = 21;

// x, w, b and dy are below 1. GELU's slope is below 1.13 and its second derivative below 0.8; both
// kernels add some roundings of their own.
OpCase::Slack slack(ops::Activation activation) {
  const double u = roundoff(DType::f32), rows = B * T, width = C, outputs = N;
  OpCase::Slack s;
  s.y = sum_error(DType::f32, C + 1, width + 1);
  double dz = 0, largest_dz = 1;
  if (activation == ops::Activation::gelu) {
    const double z = tolerance(DType::f32, width + 1, s.y);
    s.y = 1.13 * z + 8 * u * (width + 1);
    dz = 0.8 * z + 16 * u * 2;
    largest_dz = 1.13;
  }
  s.in = {outputs * dz + sum_error(DType::f32, N, outputs * largest_dz)};
  const double sums = rows * dz + sum_error(DType::f32, B * T, rows * largest_dz);
  s.params = {sums, sums};
  return s;
}

OpCase linear(std::string name, ops::Activation activation, bool bias) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Linear>(ParamId{0}, bias ? ParamId{1} : ParamId{}, N, activation);
  };
  c.in = {random_numbers({B, T, C}, 1)};
  c.params = {random_numbers({N, C}, 2)};
  if (bias) c.params.push_back(random_numbers({N}, 3));
  c.grad_out = random_numbers({B, T, N}, 4);
  c.rows = B * T;
  c.slack = slack(activation);
  return c;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  using enum ops::Activation;
  auto rows = linear("linear of rows", none, true);  // no B stands beside them
  rows.in[0].shape = {B * T, C};
  rows.grad_out.shape = {B * T, N};
  return {linear("linear", none, true), linear("linear without bias", none, false),
          linear("linear with GELU", gelu, true),
          linear("linear with GELU without bias", gelu, false), rows};
}

}  // namespace trireme
