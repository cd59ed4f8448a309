#include "kernels/host/few_rows.hpp"

#include <immintrin.h>

#include <algorithm>

#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

constexpr std::int64_t columns_a_chunk = 32;  // rows of b' that a thread takes at a time

// a b + c rounded once, always: left to the compiler, some chains are made of FMAs and others, in
// another block, of products and sums.
template <class V>
V fused(V a, V b, V c) {
  if constexpr (sizeof(V) == 64)
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  else
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

float lane_sum(Vec v) {
  float sum = 0;
#pragma GCC unroll 16
  for (int l = 0; l < lanes; ++l) sum += v[l];
  return sum;
}

// The product's arrays as elements.
template <class T>
struct Arrays {
  explicit Arrays(const Product& p)
      : c(reinterpret_cast<T*>(p.c.data)),
        a(reinterpret_cast<const T*>(p.a.data)),
        b(reinterpret_cast<const T*>(p.b.data)),
        bias(reinterpret_cast<const T*>(p.bias.data)),
        c_row(p.c.stride[0]),
        a_row(p.a.stride[0]),
        b_row(p.b.stride[1]),
        K(p.a.extent[1]),
        add(p.how == Accumulate::add) {}

  void put(std::int64_t m, std::int64_t n, Vec sum) const {
    float x = lane_sum(sum);
    if (bias) x += static_cast<float>(bias[n]);
    T& to = c[m * c_row + n];
    to = add ? static_cast<T>(static_cast<float>(to) + x) : static_cast<T>(x);
  }

  T* c;
  const T *a, *b, *bias;
  std::int64_t c_row, a_row, b_row, K;
  bool add;
};

// The last elements of a row, zeros behind them: a loop of scalars would be compiled to other
// roundings in one place than in another.
template <class T>
Vec load_end(const T* p, std::int64_t n) {
  std::array<T, lanes> end{};
  std::copy_n(p, n, end.data());
  return load(end.data());
}

// M rows of a with N of b'.
template <int M, int N, class T>
void block(const Arrays<T>& x, std::int64_t m, std::int64_t n) {
  std::array<std::array<Vec, N>, M> sum{};
  const auto add = [&](std::int64_t k, const auto& load_at) {
    std::array<Vec, N> b;
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) b[j] = load_at(x.b + (n + j) * x.b_row + k);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const Vec a = load_at(x.a + (m + i) * x.a_row + k);
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) sum[i][j] = fused(a, b[j], sum[i][j]);
    }
  };
  std::int64_t k = 0;
  for (; k + lanes <= x.K; k += lanes) add(k, [](const T* p) { return load(p); });
  if (k < x.K) add(k, [&](const T* p) { return load_end(p, x.K - k); });
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) x.put(m + i, n + j, sum[i][j]);
}

template <int M, class T>
void columns(const Arrays<T>& x, std::int64_t m, std::int64_t begin, std::int64_t end) {
  constexpr int wide = M == 1 ? 4 : 2;
  auto n = begin;
  for (; n + wide <= end; n += wide) block<M, wide>(x, m, n);
  for (; n < end; ++n) block<M, 1>(x, m, n);
}

template <class T>
void multiply(const Product& p) {
  const Arrays<T> x(p);
  const auto M = p.c.extent[0];
  for_chunks(p.c.extent[1], columns_a_chunk, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t m = 0;
    for (; m + 4 <= M; m += 4) columns<4>(x, m, begin, end);
    for (; m < M; ++m) columns<1>(x, m, begin, end);
  });
}

}  // namespace

void multiply_few_rows(const Product& p) {
  require(p.a.stride[1] == 1 && p.b.stride[0] == 1 && p.c.dtype == p.a.dtype,
          "matmul: sums by row are made of rows of a and of b', into their own type");
  if (p.a.dtype == DType::bf16)
    multiply<bf16>(p);
  else
    multiply<float>(p);
}

}  // namespace trireme::host
