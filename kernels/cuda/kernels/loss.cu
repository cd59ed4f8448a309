// Cross-entropy of rows of logits, and its gradient in place. Each thread block processes one row.
// It reads the row once for both the maximum and the sum (Milakov, Gimelshein 2018), and again for
// the gradient, much of it from the cache.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/quick.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/divergence.hpp"
#include "kernels/math/log.hpp"
#include "kernels/math/softcap.hpp"

namespace trireme::cuda {
namespace {

// Two blocks run on a multiprocessor. The 264 rows that are processed at a time (27 MB for GPT-2's
// vocabulary) then stay in the cache.
constexpr int threads = 1024;

// Whether the logits have a soft cap.
enum class Soft : std::uint8_t { plain, capped };

template <Soft kind, int N, class T>
__global__ void __launch_bounds__(threads)
    loss_rows(double* loss_T, T* logits_TV, const std::int32_t* target_T, std::int64_t vocab,
              float scale, float cap, bool become_gradient) {
  constexpr bool soft = kind == Soft::capped;
  const auto of = [cap](Floats<N> x) {
    if constexpr (soft) {
#pragma unroll
      for (int k = 0; k < N; ++k) x.v[k] = math::capped(x.v[k], cap);
    }
    return x;
  };
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  using Exp = Arithmetic<T>;
  T* const z = logits_TV + row * vocab;
  const auto target = target_T[row];
  const auto first = static_cast<std::int64_t>(threadIdx.x) * N, step = std::int64_t{threads} * N;
  if (target < 0) {
    if (threadIdx.x == 0) loss_T[row] = 0;
    if (become_gradient)
      for (auto v = first; v < vocab; v += step) store<N>(z + v, Floats<N>{});
    return;
  }
  // The maximum ignores NaNs, but the sum propagates them.
  float most = -3.402823466e38F, sum = 0;
  for (auto v = first; v < vocab; v += step) {
    const auto x = of(load<N>(z + v));
    float here = most;
#pragma unroll
    for (int k = 0; k < N; ++k) here = fmaxf(here, x.v[k]);
    sum *= Exp::exp(most - here);
    most = here;
#pragma unroll
    for (int k = 0; k < N; ++k) sum += Exp::exp(x.v[k] - most);
  }
  const float largest = block_max<threads>(most);
  const float total = block_sum<threads>(sum * Exp::exp(most - largest));
  if (threadIdx.x == 0) {
    const float logit = widen(z[target]), at_target = soft ? math::capped(logit, cap) : logit;
    loss_T[row] = static_cast<double>(math::log(total)) +
                  (static_cast<double>(largest) - static_cast<double>(at_target));
  }
  if (!become_gradient) return;
  __syncthreads();  // the target's logit has been read
  const float factor = scale / total;
  // The loop runs backwards: the rows that are processed at a time fill the cache, and their ends
  // are still in it.
  const auto packs = (vocab - first + step - 1) / step;
  for (auto v = first + (packs - 1) * step; v >= first; v -= step) {
    auto x = of(load<N>(z + v));
    Floats<N> slope;
    if constexpr (soft) {
#pragma unroll
      for (int k = 0; k < N; ++k) slope.v[k] = math::capped_slope(x.v[k], cap);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) x.v[k] = factor * Exp::exp(x.v[k] - largest);
    if (target - v >= 0 && target - v < N) {
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (v + k == target) x.v[k] -= scale;
    }
    if constexpr (soft) {
#pragma unroll
      for (int k = 0; k < N; ++k) x.v[k] *= slope.v[k];
    }
    store<N>(z + v, x, Kept::elsewhere);
  }
}

struct Taught {
  float cap, teacher_cap, temperature, share;
};

// Computes the loss with a teacher whose logits are y, with p = softmax(y / t) and q = softmax(z /
// t). Arithmetic is exact in any type, because the terms p log(p / q) may almost cancel.
template <class T>
__global__ void __launch_bounds__(threads)
    taught_rows(double* loss_T, T* logits_TV, const T* teacher_TV, const std::int32_t* target_T,
                std::int64_t vocab, float scale, Taught taught, bool become_gradient) {
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  T* const x = logits_TV + row * vocab;
  const T* const theirs = teacher_TV + row * vocab;
  const auto target = target_T[row];
  if (target < 0) {
    if (threadIdx.x == 0) loss_T[row] = 0;
    if (become_gradient)
      for (std::int64_t v = threadIdx.x; v < vocab; v += threads) x[v] = rounded<T>(0);
    return;
  }
  const auto under = [](float v, float cap) { return cap > 0 ? math::capped(v, cap) : v; };
  const auto z = [&](std::int64_t v) { return under(widen(x[v]), taught.cap); };
  const auto y = [&](std::int64_t v) { return under(widen(theirs[v]), taught.teacher_cap); };
  const float t = taught.temperature, colder = 1 / t, rest = 1 - taught.share;
  float most_z = -3.402823466e38F, most_y = most_z;
  for (std::int64_t v = threadIdx.x; v < vocab; v += threads) {
    most_z = fmaxf(most_z, z(v));
    most_y = fmaxf(most_y, y(v));
  }
  most_z = block_max<threads>(most_z);
  most_y = block_max<threads>(most_y);
  float sums[3] = {};
  for (std::int64_t v = threadIdx.x; v < vocab; v += threads) {
    sums[0] += math::exp(z(v) - most_z);
    sums[1] += math::exp((z(v) - most_z) * colder);
    sums[2] += math::exp((y(v) - most_y) * colder);
  }
  block_sums<threads>(sums);
  const float apart = math::log(sums[1]) - math::log(sums[2]);
  float divergence = 0;
  for (std::int64_t v = threadIdx.x; v < vocab; v += threads) {
    const float of_y = (y(v) - most_y) * colder, of_z = (z(v) - most_z) * colder;
    divergence += math::divergence_term(math::exp(of_y) / sums[2], math::exp(of_z) / sums[1],
                                        (of_z - of_y) - apart);
  }
  divergence = block_sum<threads>(divergence);
  if (threadIdx.x == 0) {
    const double from_target = static_cast<double>(math::log(sums[0])) +
                               (static_cast<double>(most_z) - static_cast<double>(z(target)));
    const double share = taught.share, hot = t;
    loss_T[row] = (1 - share) * from_target + share * hot * hot * divergence;
  }
  if (!become_gradient) return;
  __syncthreads();  // z(target) has been read
  for (std::int64_t v = threadIdx.x; v < vocab; v += threads) {
    const float here = z(v), slope = taught.cap > 0 ? math::capped_slope(here, taught.cap) : 1.0F;
    const float q = math::exp((here - most_z) * colder) / sums[1],
                p = math::exp((y(v) - most_y) * colder) / sums[2];
    const float from_target = math::exp(here - most_z) / sums[0] - (v == target ? 1.0F : 0.0F);
    x[v] = rounded<T>(scale * slope * (rest * from_target + taught.share * t * (q - p)));
  }
}

}  // namespace

void run(const kernel::CrossEntropy& o, const OnStream& on) {
  const auto rows = o.logits_TV.extent[0], vocab = o.logits_TV.extent[1];
  auto* const of_rows = scratch<double>(o, on, static_cast<std::size_t>(rows) * sizeof(double));
  with_type(o.logits_TV.dtype, [&]<class T>(T) {
    if (rows == 0) return;
    auto* const logits = at<T>(o.logits_TV);
    if (const auto& teacher = o.teacher; teacher.logits_TV) {
      const Taught taught{static_cast<float>(o.softcap), static_cast<float>(teacher.softcap),
                          static_cast<float>(teacher.temperature),
                          static_cast<float>(teacher.share)};
      start("cross_entropy", taught_rows<T>, blocks_for(rows, 1), threads, 0, on.stream, of_rows,
            logits, at<T>(teacher.logits_TV), at<std::int32_t>(o.target_T), vocab,
            static_cast<float>(o.scale), taught, o.logits == Logits::become_gradient);
      return;
    }
    with_packs<pack_of<T>>(vocab % pack_of<T> == 0 && aligned(logits), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      const auto launch = [&](auto kind) {
        start("cross_entropy", loss_rows<kind.value, N, T>, blocks_for(rows, 1), threads, 0,
              on.stream, of_rows, logits, at<std::int32_t>(o.target_T), vocab,
              static_cast<float>(o.scale), static_cast<float>(o.softcap),
              o.logits == Logits::become_gradient);
      };
      if (o.softcap > 0)
        launch(std::integral_constant<Soft, Soft::capped>{});
      else
        launch(std::integral_constant<Soft, Soft::plain>{});
    });
  });
  sum_in_order(on.stream, at<double>(o.loss), o.how, of_rows, rows);
}

}  // namespace trireme::cuda
