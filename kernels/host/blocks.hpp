#pragma once
// What the host's own kernels share: typed access to views, and loops over blocks of a fixed number
// of elements, which the compiler turns into vector code.
#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "kernels/host/parallel.hpp"
#include "lib/base/error.hpp"
#include "lib/base/view.hpp"

namespace trireme::host {

// Four registers of 16: enough independent sums to hide the latency of an addition.
inline constexpr std::int64_t block_size = 64;

template <class T>
T* data(const View& v) {
  return reinterpret_cast<T*>(v.data);
}
template <class T>
const T* data(const ConstView& v) {
  return reinterpret_cast<const T*>(v.data);
}

// f(T{}) for the compute type T of a kernel.
template <class F>
void by_type(DType t, const char* kernel, const F& f) {
  if (t == DType::f32) return f(float{});
  if (t == DType::bf16) return f(bf16{});
  fail("{}: the host backend computes in f32 and bf16, not in {}; use run.backend = \"ref\"",
       kernel, name_of(t));
}

// to = T(x). Through the member: GCC 12 does not vectorise the assignment of a struct.
inline void put(float& to, float x) {
  to = x;
}
inline void put(double& to, double x) {
  to = x;
}
inline void put(bf16& to, float x) {
  to.bits = bf16(x).bits;
}

// One piece of machine code for full blocks and padded ones: inlined twice, the compiler may
// contract to FMA in one place and not in the other.
template <class Body, class... T>
[[gnu::noinline, gnu::noclone]] void run_blocks(std::int64_t blocks, const Body& body, T*... p) {
  for (std::int64_t b = 0; b < blocks; ++b) body(p + b * block_size...);
}

// body(p...) on consecutive blocks of arrays of n elements. The last, short block is computed on
// padded copies, so an element's bits do not depend on its place in the array.
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

// The same over all threads.
template <class Body, class... T>
void map_blocks(std::int64_t n, const Body& body, T*... p) {
  static_assert(grain % block_size == 0);
  for_chunks(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for_blocks(end - begin, body, p + begin...);
  });
}

// body(i, i % block_size) for i of [0, n), a block at a time.
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

// One running value a lane, and their combination in a fixed order.
template <class T>
struct Lanes {
  std::array<T, block_size> lane;

  explicit Lanes(T start) { lane.fill(start); }
  T& operator[](std::int64_t l) { return lane[static_cast<std::size_t>(l)]; }

  // Folded in halves by f(a, b).
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
