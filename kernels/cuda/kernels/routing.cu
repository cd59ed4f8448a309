// Choices of experts by a router, the gradient of its logits, and its losses. Each warp processes
// one token, and the lanes of the warp take the experts in turn.
#include <limits>

#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"

namespace trireme::cuda {
namespace {

constexpr int tokens_a_block = 4, threads = warp * tokens_a_block;

struct Tokens {
  const float* logits_TE;
  const std::int32_t* counted_T;  // may be null
  std::int64_t count, experts;

  __device__ std::int64_t of_warp() const {
    return static_cast<std::int64_t>(blockIdx.x) * tokens_a_block + threadIdx.x / warp;
  }
  __device__ const float* logits(std::int64_t t) const { return logits_TE + t * experts; }
  // Returns the token as which token t is counted. A negative result marks padding.
  __device__ std::int64_t counted_as(std::int64_t t) const {
    return counted_T == nullptr ? t : counted_T[t];
  }
};
Tokens tokens_of(const ConstView& logits_TE, const ConstView& counted_T) {
  return {at<float>(logits_TE), at<std::int32_t>(counted_T), logits_TE.extent[0],
          logits_TE.extent[1]};
}

__device__ inline int lane_of() {
  return static_cast<int>(threadIdx.x) % warp;
}

// The function exp(z - most) / total, the same in every lane. The maximum ignores NaNs, but the
// total propagates them.
struct Softmax {
  float most = 0, total = 1;

  __device__ static Softmax of(const float* z_E, std::int64_t experts) {
    Softmax s{-3.402823466e38F, 0};
    for (std::int64_t e = lane_of(); e < experts; e += warp) s.most = fmaxf(s.most, z_E[e]);
    s.most = warp_max(s.most);
    for (std::int64_t e = lane_of(); e < experts; e += warp) s.total += math::exp(z_E[e] - s.most);
    s.total = warp_sum(s.total);
    return s;
  }
  __device__ float operator()(float z) const { return math::exp(z - most) / total; }
  __device__ bool is_number() const { return total > 0; }
  __device__ double log_sum() const {
    return static_cast<double>(math::log(total)) + static_cast<double>(most);
  }
};

// The sigmoid of z, and 1 minus the sigmoid. Neither is computed as a difference, which would lose
// digits.
struct Sigmoid {
  float value, rest;

  __device__ static Sigmoid of(float z) {
    const float small = math::exp(-fabsf(z)), larger = 1 / (1 + small), smaller = small * larger;
    return z >= 0 ? Sigmoid{larger, smaller} : Sigmoid{smaller, larger};
  }
};

// Scores up to a factor that all scores of a token share. share(z, top) is the score of z, where
// `top` is the largest top_of() of the token. The largest share therefore does not underflow when
// shares are divided by their sum.
template <RouterScores kind>
__device__ float top_of(float z) {
  return kind == RouterScores::softmax ? z : fminf(z, 0);
}
template <RouterScores kind>
__device__ float share(float z, float top) {
  const float e = math::exp(top_of<kind>(z) - top);
  return kind == RouterScores::softmax ? e : e / (1 + math::exp(-fabsf(z)));
}
// Returns the largest top_of() of n logits z(i). Every lane receives the result.
template <RouterScores kind, class Z>
__device__ float top_of_all(std::int64_t n, const Z& z) {
  float top = -3.402823466e38F;
  for (std::int64_t i = lane_of(); i < n; i += warp) top = fmaxf(top, top_of<kind>(z(i)));
  return warp_max(top);
}

// Counts of choices. Each row of count_BE counts `in_a_row` tokens.
struct Counts {
  const std::int64_t* count_BE;  // may be null
  std::uint32_t in_a_row;        // a 32-bit division needs no function call

  Counts(const ConstView& count_BE, std::int64_t tokens)
      : count_BE(at<std::int64_t>(count_BE)),
        in_a_row(static_cast<std::uint32_t>(count_BE ? tokens / count_BE.extent[0] : tokens)) {
    check_count(tokens, std::numeric_limits<std::int32_t>::max(), "tokens of a router");
  }
  // Returns the row of counts that includes a token that is counted as `as`, or null without
  // counts.
  __device__ const std::int64_t* of(std::int64_t as, std::int64_t experts) const {
    if (count_BE == nullptr) return nullptr;
    return count_BE + static_cast<std::uint32_t>(as) / in_a_row * experts;
  }
};

// Sums over experts: shares times counts, shares, and counts.
template <RouterScores kind>
struct Balance {
  float top, all[3] = {0, 0, 0};

  __device__ Balance(const float* z, const std::int64_t* count, std::int64_t experts)
      : top(top_of_all<kind>(experts, [&](auto e) { return z[e]; })) {
    for (std::int64_t e = lane_of(); e < experts; e += warp) {
      const float s = share<kind>(z[e], top), n = static_cast<float>(count[e]);
      all[0] += s * n;
      all[1] += s;
      all[2] += n;
    }
    warp_sums(all);
  }
};

// An expert, and the key by which it is chosen.
struct Candidate {
  float key;
  std::int32_t expert;
};
constexpr std::int32_t nobody = -1;

// Returns true if `a` is chosen before b. NaN is the worst key. Of equal keys, the lower index is
// better.
__device__ inline bool better(Candidate a, Candidate b) {
  if (b.expert == nobody || a.expert == nobody) return a.expert != nobody;
  const bool a_lacks = a.key != a.key, b_lacks = b.key != b.key;
  if (a_lacks != b_lacks) return b_lacks;
  return a.key == b.key || a_lacks ? a.expert < b.expert : a.key > b.key;
}

__device__ inline Candidate best_of_warp(Candidate c) {
#pragma unroll
  for (int lane = warp / 2; lane > 0; lane /= 2) {
    const Candidate other{__shfl_xor_sync(0xffffffffU, c.key, lane),
                          __shfl_xor_sync(0xffffffffU, c.expert, lane)};
    if (better(other, c)) c = other;
  }
  return c;
}

struct Choosing {
  float* weight_TK;
  std::int32_t* choice_TK;
  const float* bias_E;  // may be null
  std::int64_t choices;
  bool normalize;
};

// Chooses the experts of each token. Without a bias, the keys are logits instead of scores. Logits
// have the same order and more digits.
template <RouterScores kind>
__global__ void __launch_bounds__(threads) choose(Tokens tokens, Choosing to) {
  const auto t = tokens.of_warp();
  if (t >= tokens.count) return;
  auto* const choice = to.choice_TK + t * to.choices;
  auto* const weight = to.weight_TK + t * to.choices;
  if (tokens.counted_as(t) < 0) {
    for (std::int64_t k = lane_of(); k < to.choices; k += warp) {
      choice[k] = static_cast<std::int32_t>((t * to.choices + k) % tokens.experts);
      weight[k] = 0;
    }
    return;
  }
  const auto* const z = tokens.logits(t);
  constexpr bool together = kind == RouterScores::softmax;
  const auto softmax = together ? Softmax::of(z, tokens.experts) : Softmax{};
  const auto score = [&](std::int64_t e) {
    return together ? softmax(z[e]) : Sigmoid::of(z[e]).value;
  };
  // Each lane reads only keys that it has written.
  float* const keys = block_memory() + threadIdx.x / warp * tokens.experts;
  for (std::int64_t e = lane_of(); e < tokens.experts; e += warp) {
    const bool by_logit = to.bias_E == nullptr && softmax.is_number();
    keys[e] = by_logit ? z[e] : score(e) + (to.bias_E == nullptr ? 0 : to.bias_E[e]);
  }
  Candidate last{0, nobody};
  for (std::int64_t k = 0; k < to.choices; ++k) {
    Candidate next{0, nobody};
    for (std::int64_t e = lane_of(); e < tokens.experts; e += warp) {
      const Candidate here{keys[e], static_cast<std::int32_t>(e)};
      const bool taken = last.expert != nobody && !better(last, here);
      if (!taken && better(here, next)) next = here;
    }
    last = best_of_warp(next);
    if (k % warp != lane_of()) continue;
    choice[k] = last.expert;
    weight[k] = score(last.expert);
  }
  if (!to.normalize) return;
  float top = 0, sum = 0;
  if constexpr (!together) top = top_of_all<kind>(to.choices, [&](auto k) { return z[choice[k]]; });
  for (std::int64_t k = lane_of(); k < to.choices; k += warp) {
    if constexpr (!together) weight[k] = share<kind>(z[choice[k]], top);
    sum += weight[k];
  }
  sum = warp_sum(sum);
  for (std::int64_t k = lane_of(); k < to.choices; k += warp) weight[k] /= sum;
}

// Operands of the gradient of logits.
template <class T>
struct Slopes {
  T* dlogits_TE;
  const float* dweight_TK;  // may be null
  const std::int32_t* choice_TK;
  Counts counts;
  std::int64_t choices;
  bool normalize;
  float balance_scale, z_scale;
};

// Computes the gradient of a token's logits. With scores s, p = s / sum of all, w the weights and
// slope = d log s / dz without softmax's common term (1 for softmax, 1 - s for the sigmoid), the
// terms are
//   weights             dz_k = s_k slope_k dw_k; softmax: all also get - s_e sum_k s_k dw_k
//   normalized weights  dz_k = w_k slope_k (dw_k - sum_j w_j dw_j)
//   balance loss        dz_e = p_e slope_e (count_e - sum_i p_i count_i)
//   z-loss              dz_e = 2 lse softmax_e
template <RouterScores kind, class T>
__global__ void __launch_bounds__(threads, 1)  // otherwise some registers are spilled
    route_grad_rows(Tokens tokens, Slopes<T> from) {
  const auto t = tokens.of_warp();
  if (t >= tokens.count) return;
  const auto* const z = tokens.logits(t);
  const auto experts = tokens.experts, choices = from.choices;
  const auto as = tokens.counted_as(t);
  if (as < 0) {
    for (std::int64_t e = lane_of(); e < experts; e += warp)
      from.dlogits_TE[t * experts + e] = rounded<T>(0);
    return;
  }
  constexpr bool together = kind == RouterScores::softmax;
  const auto softmax = together || from.z_scale != 0 ? Softmax::of(z, experts) : Softmax{};
  const auto score = [&](float x) { return together ? softmax(x) : Sigmoid::of(x).value; };

  const auto* const choice = from.choice_TK + t * choices;
  const auto* const dweight = from.dweight_TK == nullptr ? nullptr : from.dweight_TK + t * choices;
  float chosen[2] = {0, 0};  // sums of s dw and of s; s are shares if `normalize` is set
  float top_chosen = 0;
  if (dweight != nullptr) {
    if (from.normalize)
      top_chosen = top_of_all<kind>(choices, [&](auto k) { return z[choice[k]]; });
    for (std::int64_t k = lane_of(); k < choices; k += warp) {
      const float x = z[choice[k]], s = from.normalize ? share<kind>(x, top_chosen) : score(x);
      chosen[0] += s * dweight[k];
      chosen[1] += s;
    }
    warp_sums(chosen);
  }
  const float mean = from.normalize ? chosen[0] / chosen[1] : 0;
  const float back = together && !from.normalize ? chosen[0] : 0;

  const auto* const count = from.counts.of(as, experts);
  float top_all = 0, counted = 0, balance_scale = 0;
  if (count != nullptr) {
    const Balance<kind> balance(z, count, experts);
    top_all = balance.top;
    counted = balance.all[0] / balance.all[1];
    balance_scale = from.balance_scale / (balance.all[1] * balance.all[2]);
  }
  const float slope =
      from.z_scale == 0 ? 0 : 2 * from.z_scale * static_cast<float>(softmax.log_sum());

  for (std::int64_t e = lane_of(); e < experts; e += warp) {
    const auto sigmoid = together ? Sigmoid{softmax(z[e]), 1} : Sigmoid::of(z[e]);
    float dz = sigmoid.value * -back;
    if (count != nullptr)
      dz += balance_scale * share<kind>(z[e], top_all) * (static_cast<float>(count[e]) - counted);
    if (dweight != nullptr)
      for (std::int64_t k = 0; k < choices; ++k)
        if (choice[k] == e) {
          const float s =
              from.normalize ? share<kind>(z[e], top_chosen) / chosen[1] : sigmoid.value;
          dz += s * (dweight[k] - mean);
        }
    dz *= sigmoid.rest;
    if (from.z_scale != 0) dz += slope * softmax(z[e]);
    from.dlogits_TE[t * experts + e] = rounded<T>(dz);
  }
}

template <RouterScores kind>
__global__ void __launch_bounds__(threads)
    router_losses(double* loss_2T, Tokens tokens, Counts counts) {
  const auto t = tokens.of_warp();
  if (t >= tokens.count) return;
  const auto as = tokens.counted_as(t);
  if (as < 0) {
    if (lane_of() == 0) loss_2T[t] = loss_2T[tokens.count + t] = 0;
    return;
  }
  const auto* const z = tokens.logits(t);
  const auto softmax = Softmax::of(z, tokens.experts);
  float loss = 0;
  if (const auto* const count = counts.of(as, tokens.experts); count != nullptr) {
    const Balance<kind> balance(z, count, tokens.experts);
    loss = static_cast<float>(tokens.experts) * balance.all[0] / (balance.all[1] * balance.all[2]);
  }
  if (lane_of() != 0) return;
  const double lse = softmax.log_sum();
  loss_2T[t] = static_cast<double>(loss);
  loss_2T[tokens.count + t] = lse * lse;
}

// Calls f(std::integral_constant<RouterScores, kind>).
template <class F>
void with_scores(RouterScores kind, const F& f) {
  if (kind == RouterScores::softmax)
    f(std::integral_constant<RouterScores, RouterScores::softmax>{});
  else
    f(std::integral_constant<RouterScores, RouterScores::sigmoid>{});
}

}  // namespace

void run(const kernel::Route& o, const OnStream& on) {
  const auto tokens = tokens_of(o.logits_TE, o.counted_T);
  check_experts(tokens.experts);
  if (tokens.count == 0) return;
  const Choosing to{.weight_TK = at<float>(o.weight_TK),
                    .choice_TK = at<std::int32_t>(o.choice_TK),
                    .bias_E = at<float>(o.bias_E),
                    .choices = o.choice_TK.extent[1],
                    .normalize = o.normalize};
  const auto keys = static_cast<std::size_t>(tokens_a_block * tokens.experts) * sizeof(float);
  with_scores(o.scores, [&](auto kind) {
    start("route", choose<decltype(kind)::value>, blocks_for(tokens.count, tokens_a_block), threads,
          keys, on.stream, tokens, to);
  });
}

void run(const kernel::RouteGrad& o, const OnStream& on) {
  const auto tokens = tokens_of(o.logits_TE, o.counted_T);
  if (tokens.count == 0) return;
  with_type(o.dlogits_TE.dtype, [&]<class T>(T) {
    const Slopes<T> from{
        .dlogits_TE = at<T>(o.dlogits_TE),
        .dweight_TK = at<float>(o.dweight_TK),
        .choice_TK = at<std::int32_t>(o.choice_TK),
        .counts = {o.balance_scale == 0 ? ConstView{} : o.count_BE, tokens.count},
        .choices = o.choice_TK.extent[1],
        .normalize = o.normalize,
        .balance_scale = static_cast<float>(o.balance_scale * static_cast<double>(tokens.experts)),
        .z_scale = static_cast<float>(o.z_scale)};
    with_scores(o.scores, [&](auto kind) {
      start("route_grad", route_grad_rows<decltype(kind)::value, T>,
            blocks_for(tokens.count, tokens_a_block), threads, 0, on.stream, tokens, from);
    });
  });
}

void run(const kernel::RouterLosses& o, const OnStream& on) {
  const auto tokens = tokens_of(o.logits_TE, o.counted_T);
  if (tokens.count == 0) return;
  auto* const of_tokens =
      scratch<double>(o, on, static_cast<std::size_t>(2 * tokens.count) * sizeof(double));
  with_scores(o.scores, [&](auto kind) {
    start("router_losses", router_losses<decltype(kind)::value>,
          blocks_for(tokens.count, tokens_a_block), threads, 0, on.stream, of_tokens, tokens,
          Counts(o.count_BE, tokens.count));
  });
  for (int i = 0; i < 2; ++i)
    sum_in_order(on.stream, at<double>(o.sums) + i, Accumulate::add, of_tokens + i * tokens.count,
                 tokens.count);
}

}  // namespace trireme::cuda
