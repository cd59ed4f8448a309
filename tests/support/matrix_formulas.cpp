#include "tests/support/matrix_formulas.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace trireme::test {

static bool has(const ParamSpec& p, const char* what) {
  return p.name.find(what) != std::string::npos;
}

bool sees_matrices(const ParamSpec& p) {
  if (p.shape.dims() != 2 || p.learns_from != LearnsFrom::gradients) return false;
  for (const char* what : {".qkv.", ".projection.", ".ffn_in.", ".ffn_out.", "lora_a", "lora_b"})
    if (has(p, what)) return true;
  return false;
}

static std::vector<MatrixRows> one_after_another(const std::vector<std::int64_t>& rows) {
  std::vector<MatrixRows> all;
  std::int64_t first = 0;
  for (const auto n : rows) {
    all.push_back({first, n});
    first += n;
  }
  return all;
}

// Adapters here are of all products of a weight. GPT-2's q, k and v are one.
std::vector<MatrixRows> matrix_rows(const ModelSpec& spec, ParamId id, bool each_head) {
  const auto& p = spec.params[id.index()];
  const auto& c = spec.config;
  const auto rows = p.shape[0];
  const bool gated = has(p, ".ffn_in.") && is_gated(c.activation);
  const bool qkv = has(p, ".qkv.");
  if (has(p, "lora_a")) {
    const bool one = !gated && (!qkv || c.positions == Positions::learned);
    const auto n = one ? 1 : qkv ? 3 : 2;
    return one_after_another(std::vector<std::int64_t>(static_cast<std::size_t>(n), rows / n));
  }
  if (gated) return one_after_another({rows / 2, rows / 2});
  if (!qkv || (has(p, "lora_b") && c.positions == Positions::learned)) return {{0, rows}};
  if (each_head && !has(p, "lora_b"))
    return one_after_another(
        std::vector<std::int64_t>(static_cast<std::size_t>(rows / c.head_dim), c.head_dim));
  const auto kv = c.kv_heads * c.head_dim;
  return one_after_another({c.heads * c.head_dim, kv, kv});
}

// Of modded-nanogpt, in the order of the steps.
constexpr std::array<std::array<double, 3>, 5> polar{
    {{8.156554524902461, -22.48329292557795, 15.878769915207462},
     {4.042929935166739, -2.808917465908714, 0.5000178451051316},
     {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
     {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
     {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}};

DoubleMatrix muon_step(DoubleMatrix x, MuonPolynomials polynomials) {
  const bool tall = x.rows > x.columns;
  if (tall) x = transposed(x);
  const bool jordan = polynomials == MuonPolynomials::jordan;
  x = 1 / (jordan ? norm_of(x) + 1e-7 : 1.02 * norm_of(x) + 1e-6) * x;
  for (std::size_t step = 0; step < 5; ++step) {
    const auto [a, b, c] = jordan ? std::array{3.4445, -4.7750, 2.0315} : polar[step];
    const auto s = x * transposed(x);
    x = a * x + b * (s * x) + c * (s * (s * x));
  }
  return tall ? transposed(x) : x;
}

static void average(std::optional<DoubleMatrix>& of, const DoubleMatrix& x, double beta) {
  if (!of) of.emplace(x.rows, x.columns);
  of = beta * *of + (1 - beta) * x;
}

// (a + eps ||a||)^(-1/4). Of zeros any root will do, as it is multiplied by zeros.
static DoubleMatrix inverse_fourth_root(const DoubleMatrix& a, double eps) {
  const double ridge = norm_of(a) == 0 ? 1 : eps * norm_of(a);
  return with_eigenvalues(a, [&](double s) { return std::pow(s + ridge, -0.25); });
}

DoubleMatrix shampoo_step(const matrix_rule::Shampoo& rule, const DoubleMatrix& g,
                          std::int64_t count, ShampooSides& sides) {
  average(sides.left, g * transposed(g), rule.beta);
  average(sides.right, transposed(g) * g, rule.beta);
  if (count == 1 || count % rule.every == 0) {
    sides.left_root = inverse_fourth_root(*sides.left, rule.eps);
    sides.right_root = inverse_fourth_root(*sides.right, rule.eps);
  }
  const auto step = *sides.left_root * g * *sides.right_root;
  const double norm = norm_of(step);
  return norm == 0 ? step
                   : std::sqrt(static_cast<double>(std::min(g.rows, g.columns))) / norm * step;
}

double step_scale(MatrixScale scale, std::int64_t rows, std::int64_t columns) {
  const auto out = static_cast<double>(rows), in = static_cast<double>(columns);
  if (scale == MatrixScale::jordan) return out > in ? std::sqrt(out / in) : 1;
  if (scale == MatrixScale::adamw) return 0.2 * std::sqrt(out > in ? out : in);
  return std::sqrt(out) / std::sqrt(in);
}

}  // namespace trireme::test
