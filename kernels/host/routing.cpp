// Choices of experts by a router, and router losses. T tokens, E experts, K choices per token. The
// numbers of a token do not depend on the logits of other tokens.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::host {
namespace {

// Scores up to a factor that all scores of a token share. share(z, top) is the score of z, where
// `top` is the largest top(z) of the token. The factor keeps the largest share from underflowing.
// slope(z) is d log(score) / dz, without the common term of softmax.
struct Softmax {
  static float top(float z) { return z; }
  static float share(float z, float top) { return math::exp(z - top); }
  static float slope(float) { return 1; }
};
struct Sigmoid {
  static float top(float z) { return z < 0 ? z : 0.0F; }
  static float share(float z, float most) {
    return math::exp(top(z) - most) / (1 + math::exp(-std::fabs(z)));
  }
  static float slope(float z) { return 1 / (1 + math::exp(z)); }
};

template <class F>
void with_scores(RouterScores kind, const F& f) {
  if (kind == RouterScores::softmax) return f(Softmax{});
  f(Sigmoid{});
}

// The largest top(z) of a token and the sum of its shares. A NaN does not become the largest, but
// makes the sum NaN.
struct Shares {
  float top, sum;
};
template <class S>
Shares shares_of(const float* z, std::int64_t E) {
  Lanes<float> tops(-std::numeric_limits<float>::infinity());
  const auto larger = [](float a, float b) { return b > a ? b : a; };
  for_lanes(E, [&](auto e, auto l) { tops[l] = larger(tops[l], S::top(z[e])); });
  const float top = tops.fold(larger);
  Lanes<float> sums(0);
  for_lanes(E, [&](auto e, auto l) { sums[l] += S::share(z[e], top); });
  return {top, sums.sum()};
}

// Returns the score of z.
template <class S>
float score(float z, const Shares& all) {
  if constexpr (std::is_same_v<S, Softmax>)
    return S::share(z, all.top) / all.sum;
  else
    return S::share(z, 0);
}

// Finds the K largest of E keys, the largest first. Of equal keys, and of NaNs, the lower index
// comes first.
void choose(const float* key, std::int64_t E, std::int64_t K, std::int32_t* best) {
  const auto better = [](float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); };
  for (std::int64_t e = 0; e < E; ++e) {
    auto at = std::min(e, K);
    if (at == K && !better(key[e], key[best[--at]])) continue;
    for (; at > 0 && better(key[e], key[best[at - 1]]); --at) best[at] = best[at - 1];
    best[at] = static_cast<std::int32_t>(e);
  }
}

// Returns the token as which token t is counted. A negative result marks padding.
std::int64_t counted_as(const ConstView& counted_T, std::int64_t t) {
  return counted_T ? data<std::int32_t>(counted_T)[t] : t;
}

// The counts of choices in the row of count_BE that a token belongs to, and E divided by their sum.
struct Counted {
  const std::int64_t* count_E;
  double scale;
  Counted(const ConstView& count_BE, const ConstView& counted_T, std::int64_t t,
          std::int64_t tokens) {
    const auto E = count_BE.extent[1];
    count_E =
        data<std::int64_t>(count_BE) + counted_as(counted_T, t) / (tokens / count_BE.extent[0]) * E;
    std::int64_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t e = 0; e < E; ++e) sum += count_E[e];
    scale = static_cast<double>(E) / static_cast<double>(sum);
  }
};

void route_padding(const kernel::Route& o, std::int64_t t) {
  const auto E = o.logits_TE.extent[1], K = o.choice_TK.extent[1];
  for (std::int64_t i = t * K; i < (t + 1) * K; ++i) {
    data<float>(o.weight_TK)[i] = 0;
    data<std::int32_t>(o.choice_TK)[i] = static_cast<std::int32_t>(i % E);
  }
}

template <class S>
void route_token(const kernel::Route& o, std::int64_t t, float* key) {
  const auto E = o.logits_TE.extent[1], K = o.choice_TK.extent[1];
  const float *z = data<float>(o.logits_TE) + t * E, *bias = data<float>(o.bias_E);
  float* weight = data<float>(o.weight_TK) + t * K;
  auto* choice = data<std::int32_t>(o.choice_TK) + t * K;
  const Shares all = shares_of<S>(z, E);
  // Scores increase with logits. Logits also distinguish experts whose scores round to the same
  // number.
  const bool by_logits = !bias && (std::is_same_v<S, Sigmoid> || !std::isnan(all.sum));
  if (bias) {
    const auto body = [all](float* to, const float* from, const float* add) {
#pragma omp simd
      for (int l = 0; l < block_size; ++l) to[l] = score<S>(from[l], all) + add[l];
    };
    for_blocks(E, body, key, z, bias);  // equal logits have equal scores at any index
  } else if (!by_logits) {
    std::fill_n(key, E, all.sum);
  }
  choose(by_logits ? z : key, E, K, choice);

  if (!o.normalize) {
    for (std::int64_t k = 0; k < K; ++k) weight[k] = score<S>(z[choice[k]], all);
    return;
  }
  float top = -std::numeric_limits<float>::infinity(), sum = 0;
  for (std::int64_t k = 0; k < K; ++k) top = std::max(top, S::top(z[choice[k]]));
  for (std::int64_t k = 0; k < K; ++k) sum += weight[k] = S::share(z[choice[k]], top);
  for (std::int64_t k = 0; k < K; ++k) weight[k] /= sum;
}

// Gradient of one token's logits. p are the scores divided by their sum, w the weights, and
// d log s / dz = slope - [softmax] s. The terms are
//   weights             dz_k = s_k slope_k dw_k; softmax: all also get - s_e sum_k s_k dw_k
//   normalized weights  dz_k = w_k slope_k (dw_k - sum_j w_j dw_j)
//   balance loss        dz_e = p_e slope_e (count_e - sum_i p_i count_i)
//   z-loss              dz_e = 2 lse softmax_e
template <class S>
class TokenGradient {
 public:
  TokenGradient(const kernel::RouteGrad& o, std::int64_t t, float* dz)
      : o_(o),
        E_(o.logits_TE.extent[1]),
        K_(o.choice_TK.extent[1]),
        t_(t),
        z_(data<float>(o.logits_TE) + t * E_),
        all_(shares_of<S>(z_, E_)),
        dz_(dz) {
    std::fill_n(dz_, E_, 0.0F);
    if (counted_as(o.counted_T, t) < 0) return;
    if (o.dweight_TK && o.normalize) add_normalized();
    if (o.dweight_TK && !o.normalize) add_weights();
    if (o.balance_scale != 0) add_balance();
    if (o.z_scale != 0) add_squares();
  }

 private:
  // Calls f(expert, dweight) for each choice.
  template <class F>
  void each_choice(const F& f) const {
    const float* dweight = data<float>(o_.dweight_TK) + t_ * K_;
    const auto* choice = data<std::int32_t>(o_.choice_TK) + t_ * K_;
    for (std::int64_t k = 0; k < K_; ++k) f(choice[k], dweight[k]);
  }
  void add_normalized() {
    float top = -std::numeric_limits<float>::infinity(), sum = 0, mean = 0;
    each_choice([&](auto e, float) { top = std::max(top, S::top(z_[e])); });
    each_choice([&](auto e, float) { sum += S::share(z_[e], top); });
    each_choice([&](auto e, float dw) { mean += S::share(z_[e], top) / sum * dw; });
    each_choice([&](auto e, float dw) {
      dz_[e] += S::share(z_[e], top) / sum * S::slope(z_[e]) * (dw - mean);
    });
  }
  void add_weights() {
    float mean = 0;
    each_choice([&](auto e, float dw) {
      const float s = score<S>(z_[e], all_);
      dz_[e] += s * S::slope(z_[e]) * dw;
      mean += s * dw;
    });
    if constexpr (std::is_same_v<S, Softmax>)
      for_lanes(E_, [&](auto e, auto) { dz_[e] -= score<S>(z_[e], all_) * mean; });
  }
  void add_balance() {
    const Counted counted(o_.count_BE, o_.counted_T, t_, o_.logits_TE.extent[0]);
    const auto* count = counted.count_E;
    Lanes<float> sums(0);
    for_lanes(E_, [&](auto e, auto l) {
      sums[l] += S::share(z_[e], all_.top) * static_cast<float>(count[e]);
    });
    const float mean = sums.sum() / all_.sum;
    const auto scale = static_cast<float>(o_.balance_scale * counted.scale);
    for_lanes(E_, [&](auto e, auto) {
      dz_[e] += scale * (S::share(z_[e], all_.top) / all_.sum) * S::slope(z_[e]) *
                (static_cast<float>(count[e]) - mean);
    });
  }
  void add_squares() {
    const Shares x = shares_of<Softmax>(z_, E_);
    const float slope = static_cast<float>(2 * o_.z_scale) * (x.top + math::log(x.sum));
    for_lanes(E_, [&](auto e, auto) { dz_[e] += slope * score<Softmax>(z_[e], x); });
  }

  const kernel::RouteGrad& o_;
  std::int64_t E_, K_, t_;
  const float* z_;
  Shares all_;
  float* dz_;
};

template <class S>
void token_losses(const kernel::RouterLosses& o, std::int64_t t, double* losses) {
  const auto E = o.logits_TE.extent[1];
  const float* z = data<float>(o.logits_TE) + t * E;
  losses[0] = losses[1] = 0;
  if (counted_as(o.counted_T, t) < 0) return;
  if (o.count_BE) {
    const Counted counted(o.count_BE, o.counted_T, t, o.logits_TE.extent[0]);
    const auto* count = counted.count_E;
    const Shares all = shares_of<S>(z, E);
    Lanes<float> sums(0);
    for_lanes(E, [&](auto e, auto l) {
      sums[l] += S::share(z[e], all.top) * static_cast<float>(count[e]);
    });
    losses[0] = counted.scale * static_cast<double>(sums.sum() / all.sum);
  }
  const Shares x = shares_of<Softmax>(z, E);
  const double lse = static_cast<double>(x.top) + static_cast<double>(math::log(x.sum));
  losses[1] = lse * lse;
}

void check_logits(const ConstView& logits_TE, const char* kernel) {
  require(logits_TE.dtype == DType::f32,
          "{}: the host backend takes logits in f32, not in {}; use run.backend = \"ref\"", kernel,
          name_of(logits_TE.dtype));
}

}  // namespace

void run(const kernel::Route& o, View) {
  check_logits(o.logits_TE, "route");
  const auto E = o.logits_TE.extent[1];
  with_scores(o.scores, [&]<class S>(S) {
    for_rows(o.logits_TE.extent[0], E, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> key(static_cast<std::size_t>(E));
      for (auto t = begin; t < end; ++t)
        if (counted_as(o.counted_T, t) < 0)
          route_padding(o, t);
        else
          route_token<S>(o, t, key.data());
    });
  });
}

void run(const kernel::RouteGrad& o, View) {
  check_logits(o.logits_TE, "route_grad");
  const auto E = o.logits_TE.extent[1];
  with_scores(o.scores, [&]<class S>(S) {
    by_type(o.dlogits_TE.dtype, "route_grad", [&]<class T>(T) {
      for_rows(o.logits_TE.extent[0], E, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> dz(static_cast<std::size_t>(E));
        for (auto t = begin; t < end; ++t) {
          TokenGradient<S>(o, t, dz.data());
          T* to = data<T>(o.dlogits_TE) + t * E;
          for_lanes(E, [&](auto e, auto) { put(to[e], dz[static_cast<std::size_t>(e)]); });
        }
      });
    });
  });
}

void run(const kernel::RouterLosses& o, View scratch) {
  check_logits(o.logits_TE, "router_losses");
  const auto rows = o.logits_TE.extent[0];
  const auto room = static_cast<std::int64_t>(scratch.span_bytes() / (2 * sizeof(double)));
  auto* losses = data<double>(scratch);
  for (std::int64_t first = 0; first < rows; first += room) {
    const auto n = std::min(rows - first, room);
    with_scores(o.scores, [&]<class S>(S) {
      for_rows(n, o.logits_TE.extent[1], [&](std::int64_t begin, std::int64_t end) {
        for (auto t = begin; t < end; ++t) token_losses<S>(o, first + t, losses + 2 * t);
      });
    });
    for (std::int64_t i = 0; i < 2 * n; ++i) {
      if (o.sums.dtype == DType::i64) {
        auto& sum = data<std::int64_t>(o.sums)[i % 2];
        sum = fixed::wrapping_sum(sum, fixed::of_loss(losses[i]));
      } else {
        data<double>(o.sums)[i % 2] += losses[i];
      }
      if (o.largest)
        *data<float>(o.largest) =
            fixed::larger(*data<float>(o.largest), static_cast<float>(losses[i]));
    }
  }
}

}  // namespace trireme::host
