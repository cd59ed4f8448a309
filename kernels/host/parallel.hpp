#pragma once
// The only caller of Kokkos and OpenMP for loops. Work is cut by size, never by thread count, so
// results do not depend on how many threads run. Debian's Kokkos has the Serial space alone, whose
// RangePolicy is the one thing safe to use from several threads: then OpenMP deals out the chunks.
#include <immintrin.h>
#include <omp.h>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace trireme::host {

inline int threads() {
  return omp_get_max_threads();
}
inline void set_threads(int n) {
  omp_set_num_threads(n);
}

// While this lives the calling thread has no other threads, as inside a parallel loop.
class OneThread {
 public:
  OneThread() { set_threads(1); }
  ~OneThread() { set_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = threads();
};

// Makes the calling thread treat denormals as zero. They cost a hundred cycles each, and a first
// moment that gets no gradient becomes one: it shrinks by 0.9 a step and stops at the smallest.
inline void flush_denormals() {
  _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
}

// body(begin, end) for consecutive chunks of [0, n), each `chunk` long but the last.
template <class Body>
void for_chunks(std::int64_t n, std::int64_t chunk, const Body& body) {
  const std::int64_t count = (n + chunk - 1) / chunk;
  const auto one = [&](std::int64_t i) {
    flush_denormals();
    body(i * chunk, std::min(n, (i + 1) * chunk));
  };
  if (count <= 1 || threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) one(i);
    return;
  }
#ifdef KOKKOS_ENABLE_OPENMP
  Kokkos::parallel_for(Kokkos::RangePolicy<Kokkos::OpenMP>(0, count), one);
#else
#pragma omp parallel
  {
    const std::int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    Kokkos::parallel_for(
        Kokkos::RangePolicy<Kokkos::Serial>(count * me / team, count * (me + 1) / team), one);
  }
#endif
}

// Units of work of different size, taken in order by whatever thread is free. body(unit, slot):
// slots are numbers below slots_for(units), one for each thread at work, `most` in all.
inline constexpr std::int64_t any_slots = std::numeric_limits<std::int64_t>::max();
inline std::int64_t slots_for(std::int64_t units, std::int64_t most = any_slots) {
  return std::min({units, static_cast<std::int64_t>(threads()), most});
}

template <class Body>
void share(std::int64_t units, const Body& body, std::int64_t most = any_slots) {
  std::atomic<std::int64_t> next{0};
  for_chunks(slots_for(units, most), 1, [&](std::int64_t slot, std::int64_t) {
    for (std::int64_t u = next++; u < units; u = next++) body(u, slot);
  });
}

// Elements a thread should get at least before a second one is worth waking.
inline constexpr std::int64_t grain = 4096;

// Rows of `width` elements in chunks of about `grain` elements.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t width, const Body& body) {
  for_chunks(rows, std::max<std::int64_t>(1, grain / std::max<std::int64_t>(1, width)), body);
}

}  // namespace trireme::host
