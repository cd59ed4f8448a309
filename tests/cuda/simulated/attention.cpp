// Attention with the roundings to expect of fused engines on tensor cores (Dao 2023): weights and
// their gradients are bf16 in products, sums are f32; and, as the workspace that cuDNN asks for has
// room for, a key/value head adds what its query heads got in bf16. None was compared with cuDNN.
#include "tests/cuda/simulated/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/base/dtype.hpp"
#include "tests/cuda/simulated/chance.hpp"

namespace trireme::simulated {
namespace {

// Rows of one head, dense in f32.
struct Rows {
  Rows(std::int64_t rows, std::int64_t width)
      : width(width), values(static_cast<std::size_t>(rows * width)) {}
  Rows(const Operand& x, std::int64_t b, std::int64_t h) : Rows(x.dim[2], x.dim[3]) {
    for (std::int64_t t = 0; t < x.dim[2]; ++t)
      for (std::int64_t d = 0; d < width; ++d) {
        const auto at = x.offset(b, h, t) + d;
        row(t)[d] = x.wide ? static_cast<const float*>(x.data)[at]
                           : static_cast<float>(static_cast<const bf16*>(x.data)[at]);
      }
  }
  void write(const Operand& x, std::int64_t b, std::int64_t h) const {
    for (std::int64_t t = 0; t < x.dim[2]; ++t)
      for (std::int64_t d = 0; d < width; ++d) {
        const auto at = x.offset(b, h, t) + d;
        if (x.wide)
          static_cast<float*>(x.data)[at] = row(t)[d];
        else
          static_cast<bf16*>(x.data)[at] = bf16(row(t)[d]);
      }
  }
  float* row(std::int64_t t) { return values.data() + t * width; }
  const float* row(std::int64_t t) const { return values.data() + t * width; }

  std::int64_t width;
  std::vector<float> values;
};

float rounded(float x) {
  return static_cast<float>(bf16(x));
}
float dot(const float* a, const float* b, std::int64_t n) {
  return std::inner_product(a, a + n, b, 0.0F);
}
void add(float* to, float factor, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

void forward(const AttentionCall& c, std::int64_t b, std::int64_t h) {
  const Rows q(c.at[0], b, h), k(c.at[1], b, h / c.group()), v(c.at[2], b, h / c.group());
  Rows o(c.at[3].dim[2], c.at[3].dim[3]), stats(c.at[4].dim[2], 1);
  const auto T = c.at[0].dim[2], S = c.at[1].dim[2], D = c.at[0].dim[3];
  std::vector<float> score(static_cast<std::size_t>(S));
  for (std::int64_t t = 0; t < T; ++t) {
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::int64_t s = 0; s < S; ++s) {
      auto& x = score[static_cast<std::size_t>(s)];
      x = c.sees(t, s) ? c.scale * dot(q.row(t), k.row(s), D)
                       : -std::numeric_limits<float>::infinity();
      most = std::max(most, x);
    }
    for (std::int64_t s = 0; s < S; ++s) {
      const float p = std::exp(score[static_cast<std::size_t>(s)] - most);
      sum += p;
      add(o.row(t), rounded(p), v.row(s), D);  // also where p is 0
    }
    for (std::int64_t d = 0; d < D; ++d) o.row(t)[d] /= sum;
    *stats.row(t) = most + std::log(sum);
  }
  o.write(c.at[3], b, h);
  stats.write(c.at[4], b, h);
}

// Gradients of one query head; dk and dv still by query head.
void backward(const AttentionCall& c, std::int64_t b, std::int64_t h, Rows& dk, Rows& dv) {
  const Rows q(c.at[0], b, h), k(c.at[1], b, h / c.group()), v(c.at[2], b, h / c.group()),
      o(c.at[3], b, h), stats(c.at[4], b, h), d_o(c.at[5], b, h);
  const auto T = c.at[0].dim[2], S = c.at[1].dim[2], D = c.at[0].dim[3];
  Rows dq(T, D);
  // Blocks of keys add to dq: in order, or as they come.
  constexpr std::int64_t block = 16;
  std::vector<std::int64_t> order(static_cast<std::size_t>((S + block - 1) / block));
  std::iota(order.begin(), order.end(), 0);
  if (!c.deterministic) chance().shuffle(order);
  for (const auto first : order)
    for (std::int64_t t = 0; t < T; ++t) {
      const float delta = dot(d_o.row(t), o.row(t), D);
      for (auto s = first * block; s < std::min(S, (first + 1) * block); ++s) {
        if (!c.sees(t, s)) continue;
        const float p = std::exp(c.scale * dot(q.row(t), k.row(s), D) - *stats.row(t));
        const float ds = rounded(p * (dot(d_o.row(t), v.row(s), D) - delta));
        add(dv.row(s), rounded(p), d_o.row(t), D);
        add(dk.row(s), c.scale * ds, q.row(t), D);
        add(dq.row(t), c.scale * ds, k.row(s), D);
      }
    }
  dq.write(c.at[6], b, h);
}

}  // namespace

void compute(const AttentionCall& c) {
  const auto B = c.at[0].dim[0], H = c.at[0].dim[1], S = c.at[1].dim[2], D = c.at[0].dim[3];
  for (std::int64_t b = 0; b < B; ++b) {
    if (c.at.size() == 5) {
      for (std::int64_t h = 0; h < H; ++h) forward(c, b, h);
      continue;
    }
    for (std::int64_t g = 0; g < c.at[1].dim[1]; ++g) {
      Rows dk(S, D), dv(S, D);
      for (std::int64_t h = g * c.group(); h < (g + 1) * c.group(); ++h) {
        Rows dk_h(S, D), dv_h(S, D);
        backward(c, b, h, dk_h, dv_h);
        for (auto* const part : {&dk_h, &dv_h})
          if (c.group() > 1) std::ranges::transform(part->values, part->values.begin(), rounded);
        add(dk.values.data(), 1, dk_h.values.data(), S * D);
        add(dv.values.data(), 1, dv_h.values.data(), S * D);
      }
      dk.write(c.at[7], b, g);
      dv.write(c.at[8], b, g);
    }
  }
}

}  // namespace trireme::simulated
