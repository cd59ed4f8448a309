#pragma once
// Parallel loops. No other file uses Kokkos or OpenMP for loops. The division of work depends only
// on its size, so results do not depend on the number of threads. Debian's Kokkos has only the
// Serial execution space, of which only RangePolicy is safe to use from several threads. OpenMP
// then distributes the chunks.
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

// While the object exists, loops and products that the calling thread starts run on this thread
// only, as inside a parallel loop.
class OneThread {
 public:
  OneThread() { set_threads(1); }
  ~OneThread() { set_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = threads();
};

// Makes the calling thread treat denormal numbers as zero, because each operation on a denormal
// number costs a hundred cycles. Denormal numbers are common in optimizer state: without gradients,
// a first moment shrinks by a factor of 0.9 in each step.
inline void flush_denormals() {
  _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
}

// Calls body(begin, end) in parallel for consecutive chunks of [0, n). Each has `chunk` elements,
// except the last, which may have fewer.
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

// Value that means no limit on the number of slots.
inline constexpr std::int64_t any_slots = std::numeric_limits<std::int64_t>::max();
// Returns the number of threads, at most `most`, that `share` uses for `units` units of work. Each
// of these threads has a slot number below the result.
inline std::int64_t slots_for(std::int64_t units, std::int64_t most = any_slots) {
  return std::min({units, static_cast<std::int64_t>(threads()), most});
}

// Calls body(unit, slot) for each unit of work. Units may differ in size, so each thread takes the
// next unit when it is idle. `slot` identifies the thread and is below slots_for(units, most).
template <class Body>
void share(std::int64_t units, const Body& body, std::int64_t most = any_slots) {
  std::atomic<std::int64_t> next{0};
  for_chunks(slots_for(units, most), 1, [&](std::int64_t slot, std::int64_t) {
    for (std::int64_t u = next++; u < units; u = next++) body(u, slot);
  });
}

// Minimum number of elements for each thread. With fewer elements, starting a second thread costs
// more than it saves.
inline constexpr std::int64_t grain = 4096;

// Calls body(begin, end) in parallel for chunks of rows that have about `grain` elements. Each row
// has `width` elements.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t width, const Body& body) {
  for_chunks(rows, std::max<std::int64_t>(1, grain / std::max<std::int64_t>(1, width)), body);
}

}  // namespace trireme::host
