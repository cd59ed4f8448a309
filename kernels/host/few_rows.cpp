#include "kernels/host/few_rows.hpp"

#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "kernels/host/matrices.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme::host {
namespace {

constexpr std::int64_t columns_a_panel = 32;  // rows of b' that a thread takes at a time
constexpr std::int64_t rows_worth_widening = 8;

// Returns a b + c, always rounded once. Without the intrinsic, the compiler uses FMAs in some
// blocks, and separate products and sums in others.
template <class V>
V fused(V a, V b, V c) {
  if constexpr (sizeof(V) == 64)
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  else
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

// Loads the last n elements of a row, followed by zeros. A scalar loop could be compiled to
// different roundings in different places.
template <class T>
Vec load_end(const T* p, std::int64_t n) {
  std::array<T, lanes> end{};
  std::copy_n(p, n, end.data());
  return load(end.data());
}

// Destination of the results, with the bias and the kind of accumulation.
template <class C>
struct Result {
  explicit Result(const Product& p)
      : c(reinterpret_cast<C*>(p.c.data)),
        bias(reinterpret_cast<const C*>(p.bias.data)),
        row(p.c.stride[0]),
        add(p.how == Accumulate::add) {}

  void put(std::int64_t m, std::int64_t n, float x) const {
    if (bias) x += static_cast<float>(bias[n]);
    C& to = c[m * row + n];
    to = add ? static_cast<C>(static_cast<float>(to) + x) : static_cast<C>(x);
  }

  C* c;
  const C* bias;
  std::int64_t row;
  bool add;
};

// Rows of a or of b'.
template <class T>
struct RowsOf {
  const T* data;
  std::int64_t step;
  const T* operator[](std::int64_t i) const { return data + i * step; }
};

// Multiplies M rows of a, from row m on, by N rows of b'. The first row of b' belongs to column n
// of c.
template <int M, int N, class A, class B, class C>
void block(const Result<C>& to, const RowsOf<A>& a, const RowsOf<B>& b, std::int64_t K,
           std::int64_t m, std::int64_t n) {
  static_assert(M * N <= lanes);
  std::array<Vec, lanes> sum{};
  const auto add = [&](std::int64_t k, const auto& load_at) {
    std::array<Vec, N> right;
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) right[j] = load_at(b[j] + k);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      const Vec left = load_at(a[m + i] + k);
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) sum[i * N + j] = fused(left, right[j], sum[i * N + j]);
    }
  };
  std::int64_t k = 0;
  for (; k + lanes <= K; k += lanes) add(k, [](const auto* p) { return load(p); });
  if (k < K) add(k, [&](const auto* p) { return load_end(p, K - k); });
  std::array<float, lanes> all;
  store(all.data(), sums(sum));
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) to.put(m + i, n + j, all[static_cast<std::size_t>(i * N + j)]);
}

// Multiplies M rows of a by the rows of b' that belong to columns [n, end) of c.
template <int M, class A, class B, class C>
void columns(const Result<C>& to, const RowsOf<A>& a, RowsOf<B> b, std::int64_t K, std::int64_t m,
             std::int64_t n, std::int64_t end) {
  constexpr int wide = M > 2 ? lanes / 4 : lanes / 2;
  for (; n + wide <= end; n += wide, b.data += wide * b.step) block<M, wide>(to, a, b, K, m, n);
  for (; n < end; ++n, b.data += b.step) block<M, 1>(to, a, b, K, m, n);
}

template <class A, class B, class C>
void all_rows(const Result<C>& to, const RowsOf<A>& a, const RowsOf<B>& b, std::int64_t M,
              std::int64_t K, std::int64_t n, std::int64_t end) {
  std::int64_t m = 0;
  for (; m + 4 <= M; m += 4) columns<4>(to, a, b, K, m, n, end);
  if (M - m == 3) return columns<3>(to, a, b, K, m, n, end);
  if (M - m == 2) return columns<2>(to, a, b, K, m, n, end);
  if (M - m == 1) return columns<1>(to, a, b, K, m, n, end);
}

// Returns scratch memory of the calling thread, aligned to a cache line.
float* memory_of_thread(std::int64_t floats) {
  struct alignas(64) Line {
    std::array<float, 16> floats;
  };
  static thread_local std::vector<Line> memory;
  const auto wanted = static_cast<std::size_t>(floats / 16 + 1);
  if (memory.size() < wanted) memory.resize(wanted);
  return memory.data()->floats.data();
}

// Computes columns [begin, end) of the product.
template <class T, class C>
void panel(const Product& p, std::int64_t begin, std::int64_t end) {
  const auto M = p.c.extent[0], K = p.a.extent[1];
  const Result<C> to(p);
  const RowsOf<T> a{reinterpret_cast<const T*>(p.a.data), p.a.stride[0]};
  const bool in_rows = p.b.stride[0] == 1;
  if (in_rows && (std::is_same_v<T, float> || M < rows_worth_widening)) {
    const RowsOf<T> b{reinterpret_cast<const T*>(p.b.data), p.b.stride[1]};
    return all_rows(to, a, RowsOf<T>{b[begin], b.step}, M, K, begin, end);
  }
  float* packed = memory_of_thread(columns_a_panel * K);
  pack<T>(packed, K, p.b.slice(1, begin, end - begin).transposed());
  all_rows(to, a, RowsOf<float>{packed, K}, M, K, begin, end);
}

template <class F>
void by_types(const Product& p, const F& f) {
  require(p.a.stride[1] == 1 && p.b.dtype == p.a.dtype &&
              (p.c.dtype == p.a.dtype || p.c.dtype == DType::f32),
          "matmul: sums by row need dense rows of a, b of the same type, and a result of that type "
          "or f32");
  if (p.a.dtype == DType::f32) return f(&panel<float, float>);
  if (p.c.dtype == DType::f32) return f(&panel<bf16, float>);
  f(&panel<bf16, bf16>);
}

}  // namespace

void multiply_few_rows(const Product& p) {
  by_types(p, [&](auto* one) {
    for_chunks(p.c.extent[1], columns_a_panel,
               [&](std::int64_t begin, std::int64_t end) { one(p, begin, end); });
  });
}

void multiply_few_rows_alone(const Product& p) {
  const auto N = p.c.extent[1];
  by_types(p, [&](auto* one) {
    for (std::int64_t n = 0; n < N; n += columns_a_panel)
      one(p, n, std::min(N, n + columns_a_panel));
  });
}

}  // namespace trireme::host
