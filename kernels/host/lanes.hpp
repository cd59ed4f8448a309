#pragma once
// What the host's own kernels share: typed access to views, and loops over blocks of a fixed number
// of lanes, which the compiler turns into vector code.
#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "kernels/host/parallel.hpp"
#include "lib/base/view.hpp"

namespace trireme::host {

// Four registers of 16: enough independent sums to hide the latency of an addition.
inline constexpr std::int64_t lanes = 64;

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

// body(p...) on consecutive blocks of `lanes` elements of arrays of n. The last, short block is
// computed on padded copies, so an element's bits do not depend on its place in the array.
template <class Body, class... T>
void for_blocks(std::int64_t begin, std::int64_t end, const Body& body, T*... p) {
  for (; begin + lanes <= end; begin += lanes) body(p + begin...);
  if (begin == end) return;
  std::tuple<std::array<std::remove_const_t<T>, lanes>...> padded{};
  const auto n = end - begin;
  std::apply([&](auto&... block) { (std::copy_n(p + begin, n, block.data()), ...); }, padded);
  std::apply([&](auto&... block) { body(block.data()...); }, padded);
  const auto store = [&](auto& block, auto* to) {
    if constexpr (!std::is_const_v<std::remove_pointer_t<decltype(to)>>) {
      std::copy_n(block.data(), n, to + begin);
    }
  };
  std::apply([&](auto&... block) { (store(block, p), ...); }, padded);
}

// The same over all threads.
template <class Body, class... T>
void map_blocks(std::int64_t n, const Body& body, T*... p) {
  static_assert(grain % lanes == 0);
  for_chunks(n, grain,
             [&](std::int64_t begin, std::int64_t end) { for_blocks(begin, end, body, p...); });
}

// body(i, i % lanes) for i of [0, n), a block at a time.
template <class Body>
void for_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) body(i + l, l);
  }
#pragma omp simd
  for (std::int64_t l = 0; l < n - i; ++l) body(i + l, l);
}

// One running value a lane, and their combination in a fixed order.
template <class T>
struct Lanes {
  std::array<T, lanes> lane;

  explicit Lanes(T start) { lane.fill(start); }
  T& operator[](std::int64_t l) { return lane[static_cast<std::size_t>(l)]; }

  // Folded in halves by f(a, b).
  template <class F>
  T fold(const F& f) {
    for (std::int64_t n = lanes / 2; n > 0; n /= 2) {
      for (std::int64_t l = 0; l < n; ++l) (*this)[l] = f((*this)[l], (*this)[l + n]);
    }
    return lane[0];
  }
  T sum() {
    return fold([](T a, T b) { return a + b; });
  }
};

}  // namespace trireme::host
