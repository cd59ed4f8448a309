#include "lib/ops/qk_norm.hpp"

#include "tests/ops/cases.hpp"
#include "tests/ops/norm_slack.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 3, T = 5;
constexpr double amplitude = 2, eps = 1e-6;

// Some of the heads of a packed tensor, a row each or one a token.
OpNumbers rows_of(const OpNumbers& qkv, const ops::Heads& h, std::int64_t begin, std::int64_t n,
                  QkNormOver over) {
  OpNumbers rows{{1, B * T * n, h.dim}, {}, {}};
  if (over == QkNormOver::width) rows.shape = {1, B * T, n * h.dim};
  for (std::int64_t t = 0; t < B * T; ++t) {
    const auto first = qkv.values.begin() + t * h.packed() + begin * h.dim;
    rows.values.insert(rows.values.end(), first, first + n * h.dim);
  }
  return rows;
}

OpCase qk_norm(std::string name, const ops::Heads& h, QkNormOver over) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) -> std::unique_ptr<Op> {
    return std::make_unique<ops::QkNorm>(h, ParamId{0}, ParamId{1}, eps, over);
  };
  c.in = {random_numbers({B, T, h.packed()}, 1, amplitude)};
  const auto of = [&](std::int64_t n) { return over == QkNormOver::width ? n * h.dim : h.dim; };
  c.params = {random_numbers({of(h.query)}, 2), random_numbers({of(h.kv)}, 3)};
  c.grad_out = random_numbers({B, T, h.packed()}, 4);
  c.rows = B * T;
  const auto slack = [&](std::int64_t begin, std::int64_t n) {
    return norm_slack(rows_of(c.in[0], h, begin, n, over), NormKind::rms, eps, amplitude, 0);
  };
  const auto q = slack(0, h.query), k = slack(h.query, h.kv);
  c.slack = {std::max(q.y, k.y), {std::max(q.in[0], k.in[0])}, {q.params[0], k.params[0]}};
  return c;
}

}  // namespace

std::vector<OpCase> qk_norm_cases() {
  using enum QkNormOver;
  return {qk_norm("norm of queries and keys", {3, 3, 6}, head),
          qk_norm("norm of queries and shared keys", {6, 2, 19}, head),
          qk_norm("norm of all queries and all keys", {6, 2, 19}, width)};
}

}  // namespace trireme
