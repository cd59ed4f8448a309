#pragma once
// Helpers of the host kernels: typed access to views, and loops over blocks of a fixed number of
// elements, which the compiler vectorises.
#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "kernels/host/parallel.hpp"
#include "lib/base/error.hpp"
#include "lib/base/view.hpp"

namespace trireme::host {

// Number of elements of a block: four registers of 16. The four independent sums hide the latency
// of additions.
inline constexpr std::int64_t block_size = 64;

// Returns the memory of a view as elements of type T.
template <class T>
T* data(const View& v) {
  return reinterpret_cast<T*>(v.data);
}
template <class T>
const T* data(const ConstView& v) {
  return reinterpret_cast<const T*>(v.data);
}

// Calls f(T{}) with the C++ type T of the compute type `t`. Throws Error, naming `kernel`, if the
// host backend does not support the type.
template <class F>
void by_type(DType t, const char* kernel, const F& f) {
  if (t == DType::f32) return f(float{});
  if (t == DType::bf16) return f(bf16{});
  fail("{}: the host backend computes in f32 and bf16, not in {}; use run.backend = \"ref\"",
       kernel, name_of(t));
}

// Converts x to the type of `to` and assigns it. For bf16 the function assigns the member, because
// GCC 12 does not vectorize struct assignments.
inline void put(float& to, float x) {
  to = x;
}
inline void put(double& to, double x) {
  to = x;
}
inline void put(bf16& to, float x) {
  to.bits = bf16(x).bits;
}

// Calls `body` on consecutive full blocks. The function is not inlined, so that full and padded
// blocks run the same machine code. Otherwise the compiler might contract operations to FMA in only
// one of two inlined copies.
template <class Body, class... T>
[[gnu::noinline, gnu::noclone]] void run_blocks(std::int64_t blocks, const Body& body, T*... p) {
  for (std::int64_t b = 0; b < blocks; ++b) body(p + b * block_size...);
}

// Calls body(p...) on consecutive blocks of arrays of n elements. A shorter last block is computed
// on padded copies, so the bits of an element do not depend on its position in the array.
template <class Body, class... T>
void for_blocks(std::int64_t n, const Body& body, T*... p) {
  run_blocks(n / block_size, body, p...);
  const auto rest = n % block_size, done = n - rest;
  if (rest == 0) return;
  std::tuple<std::array<std::remove_const_t<T>, block_size>...> padded{};
  std::apply([&](auto&... block) { (std::copy_n(p + done, rest, block.data()), ...); }, padded);
  std::apply([&](auto&... block) { run_blocks(1, body, static_cast<T*>(block.data())...); },
             padded);
  const auto store = [&]<class To>(const auto& block, To* to) {
    if constexpr (!std::is_const_v<To>) std::copy_n(block.data(), rest, to + done);
  };
  std::apply([&](auto&... block) { (store(block, p), ...); }, padded);
}

// Calls body(p...) on consecutive blocks like for_blocks, in parallel on all threads.
template <class Body, class... T>
void map_blocks(std::int64_t n, const Body& body, T*... p) {
  static_assert(grain % block_size == 0);
  for_chunks(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for_blocks(end - begin, body, p + begin...);
  });
}

// Calls body(i, i % block_size) for each i in [0, n), one block at a time.
template <class Body>
void for_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + block_size <= n; i += block_size) {
#pragma omp simd
    for (std::int64_t l = 0; l < block_size; ++l) body(i + l, l);
  }
#pragma omp simd
  for (std::int64_t l = 0; l < n - i; ++l) body(i + l, l);
}

// One running value for each element of a block. fold() combines the values in a fixed order.
template <class T>
struct Lanes {
  std::array<T, block_size> lane;

  explicit Lanes(T start) { lane.fill(start); }
  T& operator[](std::int64_t l) { return lane[static_cast<std::size_t>(l)]; }

  // Combines all values with f(a, b) and returns the result. Each iteration halves the number of
  // values. Overwrites the values.
  template <class F>
  T fold(const F& f) {
    for (std::int64_t n = block_size / 2; n > 0; n /= 2) {
      for (std::int64_t l = 0; l < n; ++l) (*this)[l] = f((*this)[l], (*this)[l + n]);
    }
    return lane[0];
  }
  T sum() {
    return fold([](T a, T b) { return a + b; });
  }
};

}  // namespace trireme::host
