// Attention with cached keys, with the same sums in the same order as attention.cpp. The scores are
// computed again for each sum, because there is no memory to store them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ref/dot.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/error.hpp"

namespace trireme::ref {
namespace {

template <class T>
void append(const View& cache_PGD, const ConstView& x_TGD, std::int64_t at) {
  const Elements<T> cache(cache_PGD);
  const Elements<const T> x(x_TGD);
  for (std::int64_t t = 0; t < x_TGD.extent[0]; ++t)
    for (std::int64_t g = 0; g < x_TGD.extent[1]; ++g)
      std::copy_n(&x.at(t, g), x_TGD.extent[2], &cache.at((at + t) % cache_PGD.extent[0], g));
}

template <class T>
void attend(const kernel::CachedAttention& a) {
  require(a.fits(a.k_cache_PGD, 1) && a.fits(a.v_cache_PGD, 1),
          "cached_attention: position {} does not fit in {} rows", a.at, a.k_cache_PGD.extent[0]);
  append<T>(a.k_cache_PGD, a.k_TGD, a.at);
  append<T>(a.v_cache_PGD, a.v_TGD, a.at);
  const Elements<const T> q(a.q_THD), sink(a.sink_H);
  const Elements<T> o(a.o_THD), k(a.k_cache_PGD), v(a.v_cache_PGD);
  const auto H = a.q_THD.extent[1], D = a.q_THD.extent[2], G = a.k_TGD.extent[1],
             P = a.k_cache_PGD.extent[0];
  for (std::int64_t t = 0; t < a.q_THD.extent[0]; ++t)
    for (std::int64_t h = 0; h < H; ++h) {
      const auto g = h * G / H, keys = a.at + t + 1,
                 first = a.window > 0 ? std::max<std::int64_t>(0, keys - a.window) : 0;
      const auto score = [&](std::int64_t j) {
        return score_of(dot<T>(&q.at(t, h), &k.at(j % P, g), D), a.scale, a.softcap);
      };
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      for (auto j = first; j < keys; ++j) largest = std::max(largest, score(j));
      for (auto j = first; j < keys; ++j) total += std::exp(score(j) - largest);
      const double whole =
          a.sink_H ? std::exp(log_with_sink(largest, total, load(sink.at(h))) - largest) : total;
      constexpr std::int64_t block = 64;
      for (std::int64_t begin = 0; begin < D; begin += block) {
        const auto n = std::min(block, D - begin);
        double sum[block] = {};
        for (auto j = first; j < keys; ++j)
          add_scaled<T>(sum, std::exp(score(j) - largest), &v.at(j % P, g, begin), n);
        for (std::int64_t d = 0; d < n; ++d) o.put(sum[d] / whole, t, h, begin + d);
      }
    }
}

}  // namespace

void run(const kernel::CachedAttention& o) {
  with_compute_type(o.q_THD.dtype, [&](auto t) { attend<decltype(t)>(o); });
}

}  // namespace trireme::ref
