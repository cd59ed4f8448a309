#include "lib/ops/linear.hpp"

#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 2, T = 5, C = 19, N = 21;

// x, w, b and dy are below 1.
OpCase::Slack slack() {
  constexpr double rows = B * T, width = C, outputs = N;
  const double sums = sum_error(DType::f32, B * T, rows);
  return {.y = sum_error(DType::f32, C + 1, width + 1),
          .in = {sum_error(DType::f32, N, outputs)},
          .params = {sums, sums}};
}

OpCase linear(std::string name, bool bias) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Linear>(ParamId{0}, bias ? ParamId{1} : ParamId{}, N);
  };
  c.in = {random_numbers({B, T, C}, 1)};
  c.params = {random_numbers({N, C}, 2)};
  if (bias) c.params.push_back(random_numbers({N}, 3));
  c.grad_out = random_numbers({B, T, N}, 4);
  c.rows = B * T;
  c.slack = slack();
  return c;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  auto rows = linear("linear of rows", true);  // no B stands beside them
  rows.in[0].shape = {B * T, C};
  rows.grad_out.shape = {B * T, N};
  return {linear("linear", true), linear("linear without bias", false), rows};
}

}  // namespace trireme
