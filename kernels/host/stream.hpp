#pragma once
// Stores that bypass the caches, for arrays that are too large for the caches. A cache line is then
// not read before it is overwritten, which doubles the rate of a fill. The code uses SSE2, which
// every x86-64 CPU has.
#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trireme::host {

// Threshold in bytes for using stores that bypass the caches. For operations that write at least
// this many bytes, these stores are faster. The threshold exceeds the size of a core's private
// caches.
inline constexpr std::size_t stream_threshold = std::size_t{8} << 20;

// Writes n bytes. from(i) returns the 16 bytes at offset i. edge(i, n) stores n bytes at offset i
// with ordinary instructions, for the unaligned ends.
template <class From, class Edge>
void stream(std::byte* to, std::size_t n, const From& from, const Edge& edge) {
  const auto aligned = (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16;
  std::size_t i = aligned < n ? aligned : n;
  edge(0, i);
  for (; i + 16 <= n; i += 16) _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), from(i));
  edge(i, n - i);
  _mm_sfence();
}

inline void stream_copy(std::byte* to, const std::byte* from, std::size_t n) {
  constexpr std::size_t ahead = 4096;
  stream(
      to, n,
      [=](std::size_t i) {
        __builtin_prefetch(from + i + ahead);
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      },
      [=](std::size_t i, std::size_t m) { std::memcpy(to + i, from + i, m); });
}

// Fills an array with n copies of x. The size of x must divide 16, and `to` must be aligned to it.
template <class T>
void stream_fill(T* to, std::size_t n, const T& x) {
  __m128i all;
  for (std::size_t i = 0; i < 16; i += sizeof x) {
    std::memcpy(reinterpret_cast<std::byte*>(&all) + i, &x, sizeof x);
  }
  auto* bytes = reinterpret_cast<std::byte*>(to);
  stream(
      bytes, n * sizeof x, [=](std::size_t) { return all; },
      [=](std::size_t i, std::size_t m) { std::memcpy(bytes + i, &all, m); });
}

}  // namespace trireme::host
