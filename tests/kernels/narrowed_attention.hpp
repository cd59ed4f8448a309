#pragma once
// Attention that rounds to bf16 between its products, as that on tensor cores does: where, and by
// how much.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/contract.hpp"

namespace trireme {

// Do tensor cores compute this, through cuDNN or by a kernel of our own?
inline bool on_tensor_cores(const Tested& t, const AttentionShape& s) {
  return t.name.starts_with("cuda") && t.compute == DType::bf16 && s.head_dim % 8 == 0;
}

// What a result may be off more where weights p and gradients ds of scores are rounded to bf16 for
// the products that they enter, and dk and dv of each of several query heads on a key/value head
// before they are added: that rounding of the sums of magnitudes, the largest of each result.
struct Narrowed {
  double o = 0, dq = 0, dk = 0, dv = 0;
};

// A row [b, t, head] of a dense [B, T, heads, D].
struct DenseRows {
  std::vector<double> values;
  std::int64_t T, heads, D;
  const double* at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return values.data() + ((b * T + t) * heads + h) * D;
  }
};

// From q, k and v that stand packed, and do. start_BT is empty without documents. With a window,
// there may be sinks, which make every p smaller and change delta = do.o to at most its size.
inline Narrowed narrowed(const AttentionShape& s, const DenseRows& qkv, const DenseRows& d_o,
                         const std::vector<std::int32_t>& start_BT) {
  const auto T = s.tokens, H = s.heads, G = s.kv_heads, D = s.head_dim;
  const auto dot = [D](const double* a, const double* b) {
    return std::inner_product(a, a + D, b, 0.0);
  };
  const auto add = [D](std::vector<double>& to, std::int64_t row, double factor, const double* x) {
    for (std::int64_t d = 0; d < D; ++d)
      to[static_cast<std::size_t>(row * D + d)] += std::abs(factor * x[d]);
  };
  Narrowed most;
  const auto raise = [](double& to, const std::vector<double>& v) {
    to = std::max(to, std::ranges::max(v));
  };
  const auto size = static_cast<std::size_t>(T * D);
  std::vector<double> p(static_cast<std::size_t>(T)), dp(p), slope(p);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < G; ++g) {
      std::vector<double> dk(size), dv(size);
      for (std::int64_t h = 0; h < H; ++h) {
        if (h * G / H != g) continue;
        std::vector<double> o(size), dq(size);
        for (std::int64_t t = 0; t < T; ++t) {
          double sum = 0, delta = 0, largest = -std::numeric_limits<double>::infinity();
          const auto keys = static_cast<std::size_t>(t) + 1;
          const std::int64_t document =
              start_BT.empty() ? 0 : start_BT[static_cast<std::size_t>(b * T + t)];
          const auto first = static_cast<std::size_t>(
              std::max(document, s.window > 0 ? t + 1 - s.window : std::int64_t{0}));
          for (auto j = first; j < keys; ++j) {
            const auto at = static_cast<std::int64_t>(j);
            p[j] = s.scale * dot(qkv.at(b, t, h), qkv.at(b, at, H + g));
            slope[j] = 1;
            if (s.softcap > 0) {
              const double part = std::tanh(p[j] / s.softcap);
              p[j] = s.softcap * part;
              slope[j] = 1 - part * part;
            }
            dp[j] = dot(d_o.at(b, t, h), qkv.at(b, at, H + G + g));
            largest = std::max(largest, p[j]);
          }
          for (auto j = first; j < keys; ++j) sum += p[j] = std::exp(p[j] - largest);
          for (auto j = first; j < keys; ++j) delta += (p[j] /= sum) * dp[j];
          for (auto j = first; j < keys; ++j) {
            const auto at = static_cast<std::int64_t>(j);
            const double change = s.window > 0 ? std::abs(dp[j]) + std::abs(delta) : dp[j] - delta;
            const double ds = s.scale * slope[j] * p[j] * change;
            add(o, t, p[j], qkv.at(b, at, H + G + g));
            add(dv, at, p[j], d_o.at(b, t, h));
            add(dq, t, ds, qkv.at(b, at, H + g));
            add(dk, at, ds, qkv.at(b, t, h));
          }
        }
        raise(most.o, o);
        raise(most.dq, dq);
      }
      raise(most.dk, dk);
      raise(most.dv, dv);
    }
  const double u = roundoff(DType::bf16), twice = H > G ? 2 * u : u;
  return {u * most.o, u * most.dq, twice * most.dk, twice * most.dv};
}

}  // namespace trireme
