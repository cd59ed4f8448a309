// o(t) = sum over s <= t of p(t, s) v(s), p(t, s) = exp(scale q(t).k(s) - lse(t)),
// lse(t) = log of the sum over s <= t of exp(scale q(t).k(s)); query head h reads k, v of h * G /
// H. s begins where the document of t does, if starts are given.
//
// With dp(t, s) = do(t).v(s) and delta(t) = do(t).o(t) = sum over s of p(t, s) dp(t, s):
//   ds = scale p (dp - delta),  dq(t) = sum_s ds k(s),  dk(s) = sum_t ds q(t),  dv(s) = sum_t p
//   do(t)
#include <algorithm>
#include <cmath>

#include "kernels/ref/dot.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/error.hpp"

namespace trireme::ref {
namespace {

// Doubles of the lent workspace, dealt out front to back.
class Scratch {
 public:
  explicit Scratch(const View& v)
      : next_(reinterpret_cast<double*>(v.data)), left_(v ? v.span_bytes() / sizeof(double) : 0) {}
  double* take(std::int64_t n) {
    require(static_cast<std::size_t>(n) <= left_, "attention: the workspace lacks {} numbers",
            static_cast<std::size_t>(n) - left_);
    left_ -= static_cast<std::size_t>(n);
    return std::exchange(next_, next_ + n);
  }

 private:
  double* next_;
  std::size_t left_;
};

// The first key that a query sees.
class FirstKey {
 public:
  explicit FirstKey(const ConstView& start_BT) : start_(start_BT) {}
  std::int64_t operator()(std::int64_t b, std::int64_t t) const {
    return start_ ? start_.at(b, t) : 0;
  }

 private:
  Elements<const std::int32_t> start_;
};

template <class T>
void forward(const kernel::Attention& a) {
  const auto& s = a.shape;
  const FirstKey first_key(a.start_BT);
  const Elements<const T> q(a.q_BTHD), k(a.k_BTGD), v(a.v_BTGD);
  const Elements<T> o(a.o_BTHD);
  const Elements<Wide<T>> lse(a.lse_BHT);
  Scratch scratch(a.workspace);
  double *p = scratch.take(s.tokens), *sum = scratch.take(s.head_dim);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const auto g = h * s.kv_heads / s.heads;
      for (std::int64_t t = 0; t < s.tokens; ++t) {
        const auto first = first_key(b, t);
        for (auto j = first; j <= t; ++j)
          p[j] = s.scale * dot(&q.at(b, t, h), &k.at(b, j, g), s.head_dim);
        const double largest = *std::max_element(p + first, p + t + 1);
        double total = 0;
        for (auto j = first; j <= t; ++j) total += p[j] = std::exp(p[j] - largest);
        std::fill_n(sum, s.head_dim, 0.0);
        for (auto j = first; j <= t; ++j) add_scaled(sum, p[j] / total, &v.at(b, j, g), s.head_dim);
        for (std::int64_t d = 0; d < s.head_dim; ++d) o.put(sum[d], b, t, h, d);
        lse.put(largest + std::log(total), b, h, t);
      }
    }
}

template <class T>
void backward(const kernel::AttentionGrad& a) {
  const auto& s = a.shape;
  const Elements<const T> d_o(a.do_BTHD), o(a.o_BTHD), q(a.q_BTHD), k(a.k_BTGD), v(a.v_BTGD);
  const Elements<const Wide<T>> lse(a.lse_BHT);
  const Elements<T> dq(a.dq_BTHD), dk(a.dk_BTGD), dv(a.dv_BTGD);
  const FirstKey first_key(a.start_BT);
  const auto D = s.head_dim;
  Scratch scratch(a.workspace);
  double* dq_sum = scratch.take(D);
  double *dk_sum = scratch.take(s.tokens * D), *dv_sum = scratch.take(s.tokens * D);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.kv_heads; ++g) {
      std::fill_n(dk_sum, s.tokens * D, 0.0);
      std::fill_n(dv_sum, s.tokens * D, 0.0);
      for (std::int64_t h = 0; h < s.heads; ++h) {
        if (h * s.kv_heads / s.heads != g) continue;
        for (std::int64_t t = 0; t < s.tokens; ++t) {
          const double delta = dot<T>(&d_o.at(b, t, h), &o.at(b, t, h), D);
          std::fill_n(dq_sum, D, 0.0);
          for (auto j = first_key(b, t); j <= t; ++j) {
            const double p =
                std::exp(s.scale * dot(&q.at(b, t, h), &k.at(b, j, g), D) - lse(b, h, t));
            const double dp = dot(&d_o.at(b, t, h), &v.at(b, j, g), D);
            const double ds = s.scale * p * (dp - delta);
            add_scaled(dq_sum, ds, &k.at(b, j, g), D);
            add_scaled(dk_sum + j * D, ds, &q.at(b, t, h), D);
            add_scaled(dv_sum + j * D, p, &d_o.at(b, t, h), D);
          }
          for (std::int64_t d = 0; d < D; ++d) dq.put(dq_sum[d], b, t, h, d);
        }
      }
      for (std::int64_t j = 0; j < s.tokens; ++j)
        for (std::int64_t d = 0; d < D; ++d) {
          dk.put(dk_sum[j * D + d], b, j, g, d);
          dv.put(dv_sum[j * D + d], b, j, g, d);
        }
    }
}

}  // namespace

std::size_t attention_workspace(const AttentionShape& s, Direction direction) {
  const auto numbers =
      direction == Direction::forward ? s.tokens + s.head_dim : (2 * s.tokens + 1) * s.head_dim;
  return static_cast<std::size_t>(numbers) * sizeof(double);
}

void run(const kernel::Attention& o) {
  with_compute_type(o.q_BTHD.dtype, [&](auto t) { forward<decltype(t)>(o); });
}

void run(const kernel::AttentionGrad& o) {
  with_compute_type(o.q_BTHD.dtype, [&](auto t) { backward<decltype(t)>(o); });
}

}  // namespace trireme::ref
