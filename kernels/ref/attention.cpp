// Attention in double. For a query t and the keys s that it attends to:
//   lse(t) = log of the sum over s of exp(scale q(t).k(s))
//   p(t, s) = exp(scale q(t).k(s) - lse(t))
//   o(t) = sum over s of p(t, s) v(s)
// Query head h reads key/value head h * G / H. A sink is an additional s with its own score and
// without a value. For each query and head, the state of the forward pass holds the largest score,
// the sum of the exponentials relative to it, and the sum of the values times these exponentials.
// The state of the backward pass holds dq.
//
// Backward pass, with dp(t, s) = do(t).v(s)
// and delta(t) = do(t).o(t) = sum over s of p(t, s) dp(t, s):
//   ds = scale p (dp - delta)
//   dq(t) = sum_s ds k(s),  dk(s) = sum_t ds q(t)
//   dv(s) = sum_t p do(t)
// With a soft cap c, ds is also multiplied by 1 - (z / c)^2, where z is the capped score.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/ref/dot.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/error.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::ref {
namespace {

// Allocator that divides the workspace into arrays of doubles, from front to back.
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

// The range [begin, end) of a call's keys that one query attends to.
struct Seen {
  std::int64_t begin, end;
};
class Mask {
 public:
  Mask(const AttentionShape& s, const ConstView& start_BT) : shape_(s), start_(start_BT) {}
  Seen operator()(std::int64_t b, std::int64_t t) const {
    const auto at = shape_.query_at + t;
    auto first = start_ ? std::int64_t{start_.at(b, t)} : 0;
    if (shape_.window > 0) first = std::max(first, at + 1 - shape_.window);
    const auto end = std::clamp<std::int64_t>(at + 1 - shape_.key_at, 0, shape_.keys());
    return {std::clamp<std::int64_t>(first - shape_.key_at, 0, end), end};
  }

 private:
  AttentionShape shape_;
  Elements<const std::int32_t> start_;
};

// Returns how many numbers the state holds for each query and head.
std::int64_t kept(const AttentionShape& s, Direction d) {
  return s.head_dim + (d == Direction::forward ? 2 : 0);
}

class State {
 public:
  State(const View& v, Piece piece, const AttentionShape& s, Direction d)
      : data_(reinterpret_cast<double*>(v.data)), shape_(s), each_(kept(s, d)) {
    const auto needed = attention_bytes(s, d).state;
    require(piece == Piece::all || (v && v.span_bytes() >= needed),
            "attention: keys in pieces need a state of {} bytes", needed);
  }
  double* of(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return data_ + ((b * shape_.heads + h) * shape_.tokens + t) * each_;
  }

 private:
  double* data_;
  AttentionShape shape_;
  std::int64_t each_;
};

template <class T>
void forward(const kernel::Attention& a) {
  const auto& s = a.shape;
  const auto D = s.head_dim;
  const Mask seen_by(s, a.start_BT);
  const State state(a.state, a.piece, s, Direction::forward);
  const Elements<const T> q(a.q_BTHD), k(a.k_BTGD), v(a.v_BTGD), sink(a.sink_H);
  const Elements<T> o(a.o_BTHD);
  const Elements<Wide<T>> lse(a.lse_BHT);
  Scratch scratch(a.workspace);
  double *p = scratch.take(s.keys()), *own = scratch.take(D + 2);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const auto g = h * s.kv_heads / s.heads;
      for (std::int64_t t = 0; t < s.tokens; ++t) {
        double* const at = a.piece == Piece::all ? own : state.of(b, h, t);
        double &largest = at[0], &total = at[1], *sum = at + 2;
        if (begins_keys(a.piece)) {
          std::fill_n(at, D + 2, 0.0);
          largest = -std::numeric_limits<double>::infinity();
        }
        const auto seen = seen_by(b, t);
        if (seen.begin < seen.end) {
          for (auto j = seen.begin; j < seen.end; ++j)
            p[j] = score_of(dot(&q.at(b, t, h), &k.at(b, j, g), D), s.scale, s.softcap);
          const double before = std::exchange(
              largest, std::max(largest, *std::max_element(p + seen.begin, p + seen.end)));
          const double shrink = std::exp(before - largest);
          total *= shrink;
          for (std::int64_t d = 0; d < D; ++d) sum[d] *= shrink;
          for (auto j = seen.begin; j < seen.end; ++j) {
            total += p[j] = std::exp(p[j] - largest);
            add_scaled(sum, p[j], &v.at(b, j, g), D);
          }
        }
        if (!ends_keys(a.piece)) continue;
        const double all =
            a.sink_H ? log_with_sink(largest, total, load(sink.at(h))) : largest + std::log(total);
        const double whole = a.sink_H ? std::exp(all - largest) : total;
        for (std::int64_t d = 0; d < D; ++d) o.put(sum[d] / whole, b, t, h, d);
        lse.put(all, b, h, t);
      }
    }
}

template <class T, class Sum>
void backward(const kernel::AttentionGrad& a) {
  const auto& s = a.shape;
  const auto D = s.head_dim, keys = s.keys();
  const Mask seen_by(s, a.start_BT);
  const State state(a.state, a.piece, s, Direction::backward);
  const Elements<const T> d_o(a.do_BTHD), o(a.o_BTHD), q(a.q_BTHD), k(a.k_BTGD), v(a.v_BTGD);
  const Elements<const Wide<T>> lse(a.lse_BHT);
  const Elements<T> dq(a.dq_BTHD);
  const Elements<Sum> dk(a.dk_BTGD), dv(a.dv_BTGD);
  Scratch scratch(a.workspace);
  double* own = scratch.take(D);
  double *dk_sum = scratch.take(keys * D), *dv_sum = scratch.take(keys * D);
  constexpr bool counts = std::is_same_v<Sum, std::int64_t>;
  const auto before = [&](const Elements<Sum>& x, auto... at) {
    if constexpr (!counts) return a.keys == Accumulate::add ? load(x.at(at...)) : 0.0;
    return 0.0;
  };
  const auto put = [&](const Elements<Sum>& x, double sum, auto... at) {
    if constexpr (counts) {
      const auto term = static_cast<float>(std::ldexp(sum, a.shift));
      x.at(at...) = fixed::wrapping_sum(a.keys == Accumulate::add ? x.at(at...) : 0,
                                        fixed::of_gradient(term));
      if (auto* largest = reinterpret_cast<float*>(a.largest.data))
        *largest = fixed::larger(*largest, term);
    } else {
      x.put(sum, at...);
    }
  };
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.kv_heads; ++g) {
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t d = 0; d < D; ++d) {
          dk_sum[j * D + d] = before(dk, b, j, g, d);
          dv_sum[j * D + d] = before(dv, b, j, g, d);
        }
      for (std::int64_t h = 0; h < s.heads; ++h) {
        if (h * s.kv_heads / s.heads != g) continue;
        for (std::int64_t t = 0; t < s.tokens; ++t) {
          const double delta = dot<T>(&d_o.at(b, t, h), &o.at(b, t, h), D);
          double* const dq_sum = a.piece == Piece::all ? own : state.of(b, h, t);
          if (begins_keys(a.piece)) std::fill_n(dq_sum, D, 0.0);
          const auto seen = seen_by(b, t);
          for (auto j = seen.begin; j < seen.end; ++j) {
            const double score =
                score_of(dot(&q.at(b, t, h), &k.at(b, j, g), D), s.scale, s.softcap);
            const double p = std::exp(score - lse(b, h, t));
            const double dp = dot(&d_o.at(b, t, h), &v.at(b, j, g), D);
            const double ds = s.scale * p * (dp - delta) * capped_slope(score, s.softcap);
            add_scaled(dq_sum, ds, &k.at(b, j, g), D);
            add_scaled(dk_sum + j * D, ds, &q.at(b, t, h), D);
            add_scaled(dv_sum + j * D, p, &d_o.at(b, t, h), D);
          }
          if (!ends_keys(a.piece)) continue;
          for (std::int64_t d = 0; d < D; ++d) dq.put(dq_sum[d], b, t, h, d);
        }
      }
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t d = 0; d < D; ++d) {
          put(dk, dk_sum[j * D + d], b, j, g, d);
          put(dv, dv_sum[j * D + d], b, j, g, d);
        }
    }
}

template <class T>
void sinks_backward(const kernel::SinkGrad& g) {
  const Elements<const T> d_o(g.do_BTHD), o(g.o_BTHD), sink(g.sink_H);
  const Elements<const Wide<T>> lse(g.lse_BHT);
  const Elements<Wide<T>> dsink(g.dsink_H);
  const auto B = g.lse_BHT.extent[0], H = g.lse_BHT.extent[1], T_ = g.lse_BHT.extent[2];
  for (std::int64_t h = 0; h < H; ++h) {
    double sum = g.how == Accumulate::add ? load(dsink.at(h)) : 0.0;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t t = 0; t < T_; ++t)
        sum -= std::exp(load(sink.at(h)) - lse(b, h, t)) *
               dot<T>(&d_o.at(b, t, h), &o.at(b, t, h), g.o_BTHD.extent[3]);
    dsink.put(sum, h);
  }
}

}  // namespace

double log_with_sink(double largest, double total, double sink) {
  const double keys = largest + std::log(total), most = std::max(keys, sink);
  return most + std::log(std::exp(keys - most) + std::exp(sink - most));
}

void run(const kernel::SinkGrad& o) {
  with_compute_type(o.o_BTHD.dtype, [&](auto t) { sinks_backward<decltype(t)>(o); });
}

AttentionBytes attention_bytes(const AttentionShape& s, Direction direction) {
  const auto numbers =
      direction == Direction::forward ? s.keys() + s.head_dim + 2 : (2 * s.keys() + 1) * s.head_dim;
  return {
      static_cast<std::size_t>(numbers) * sizeof(double),
      static_cast<std::size_t>(s.batch * s.heads * s.tokens * kept(s, direction)) * sizeof(double)};
}

void run(const kernel::Attention& o) {
  with_compute_type(o.q_BTHD.dtype, [&](auto t) { forward<decltype(t)>(o); });
}

void run(const kernel::AttentionGrad& o) {
  with_compute_type(o.q_BTHD.dtype, [&](auto t) {
    using T = decltype(t);
    if (o.dk_BTGD.dtype == DType::i64)
      backward<T, std::int64_t>(o);
    else if (o.dk_BTGD.dtype == dtype_of<T>)
      backward<T, T>(o);
    else
      backward<T, Wide<T>>(o);
  });
}

}  // namespace trireme::ref
