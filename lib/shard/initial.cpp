#include "lib/shard/initial.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>
#include <vector>

namespace trireme {

template <std::size_t N>
static double polynomial(const std::array<double, N>& c, double x) {
  double y = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) y = y * x + c[i];
  return y;
}

// Algorithm PPND16 of AS 241, with its coefficients for the central, intermediate and far regions.
static double inverse_normal(double p) {
  static constexpr std::array a{3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr std::array b{1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
  static constexpr std::array c{1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array d{1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
  static constexpr std::array e{6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array f{1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                          : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -x : x;
}

double normal(std::uint64_t key, std::int64_t element) {
  // One counter yields two numbers. Half a step is added to the 52 bits, so that the uniform number
  // is neither 0 nor 1.
  const auto r = philox4x32(key, static_cast<std::uint64_t>(element / 2), 0);
  const std::uint32_t high = element % 2 ? r[2] : r[0], low = element % 2 ? r[3] : r[1];
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 12;
  return inverse_normal(static_cast<double>(bits) * 0x1p-52 + 0x1p-53);
}

template <class T>
void fill_normal(std::span<T> out, std::int64_t first, std::uint64_t key, double mean, double std,
                 int threads) {
  const auto n = static_cast<std::int64_t>(out.size());
  if (n < 1 << 14) threads = 1;
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      out[static_cast<std::size_t>(i)] = static_cast<T>(mean + std * normal(key, first + i));
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t)
    others.emplace_back(work, n * t / threads, n * (t + 1) / threads);
  work(0, n / threads);
}
template void fill_normal(std::span<float>, std::int64_t, std::uint64_t, double, double, int);
template void fill_normal(std::span<double>, std::int64_t, std::uint64_t, double, double, int);

template <class T>
static void upload_chunks(Backend& b, View v, std::int64_t first, std::uint64_t key, double mean,
                          double std, int threads) {
  constexpr std::int64_t chunk = 1 << 20;
  const View flat = v.reshaped({v.count()});
  std::vector<T> values;
  for (std::int64_t begin = 0; begin < v.count(); begin += chunk) {
    const auto n = std::min(chunk, v.count() - begin);
    values.resize(static_cast<std::size_t>(n));
    fill_normal(std::span(values), first + begin, key, mean, std, threads);
    b.upload(Queue::compute, flat.slice(0, begin, n), std::as_bytes(std::span(values)));
  }
}

void upload_normal(Backend& b, View v, std::int64_t first, std::uint64_t key, double mean,
                   double std, int threads) {
  if (v.dtype == DType::f64)
    upload_chunks<double>(b, v, first, key, mean, std, threads);
  else
    upload_chunks<float>(b, v, first, key, mean, std, threads);
}

}  // namespace trireme
