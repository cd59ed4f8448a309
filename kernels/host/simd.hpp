#pragma once
// The widest vectors of floats of the CPU that is compiled for, by the compiler's vector extension:
// +, -, * work lane by lane and a product that is added becomes one FMA. For the few loops that the
// compiler does not vectorise by itself; nothing here names an instruction set.
#include <array>
#include <cstdint>
#include <cstring>

namespace trireme::host {

// 16 with AVX-512, 8 with AVX2.
inline constexpr int lanes = __BIGGEST_ALIGNMENT__ / sizeof(float);
using Vec [[gnu::vector_size(lanes * sizeof(float))]] = float;
using VecIndex [[gnu::vector_size(lanes * sizeof(float))]] = std::int32_t;

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void store(float* p, Vec v) {
  std::memcpy(p, &v, sizeof v);
}

inline float sum(Vec v) {
  std::array<float, lanes> x;
  std::memcpy(x.data(), &v, sizeof v);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x[i] += x[i + half];
  }
  return x[0];
}

// Exchanges the off-diagonal blocks of `step` lanes in each pair of rows `step` apart.
template <int step>
inline void exchange(std::array<Vec, lanes>& row) {
  VecIndex low, high;  // which lane of (row i, row i + step)
  for (int l = 0; l < lanes; ++l) {
    low[l] = (l & step) ? lanes + l - step : l;
    high[l] = (l & step) ? lanes + l : l + step;
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    if (i & step) continue;
    const Vec a = row[i], b = row[i + step];
    row[i] = __builtin_shuffle(a, b, low);
    row[i + step] = __builtin_shuffle(a, b, high);
  }
  if constexpr (step > 1) exchange<step / 2>(row);
}

// to[c][r] = from[r][c] * factor for a square of `lanes`; row lengths ld in elements.
inline void transpose(float* to, std::int64_t to_ld, const float* from, std::int64_t from_ld,
                      float factor) {
  std::array<Vec, lanes> row;
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) row[r] = load(from + r * from_ld) * factor;
  exchange<lanes / 2>(row);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(to + r * to_ld, row[r]);
}

}  // namespace trireme::host
