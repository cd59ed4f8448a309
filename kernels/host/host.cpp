#include "kernels/host/host.hpp"

#include <omp.h>
#include <Kokkos_Core.hpp>

#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme {

// Starts Kokkos once in a process. Kokkos ends when the process ends.
static void start_kokkos() {
  static Kokkos::ScopeGuard guard{};
}

Host::Host(int threads, Poison poison, Guards guards)
    : Immediate({.name = "host"}, poison, guards) {
  expect(threads >= 1, "a rank has a thread");
  omp_set_num_threads(threads);
  start_kokkos();
  // Runs one chunk on each thread, so that all threads flush denormals. Matrix products run on the
  // same threads.
  host::for_chunks(threads, 1, [](std::int64_t, std::int64_t) {});
}

void Host::put(Queue, const kernel::Operation& operation) {
  std::visit([this](const auto& o) { host::run(o, scratch()); }, operation);
}

AttentionBytes Host::attention_bytes(const AttentionShape& shape, DType dtype,
                                     Direction direction) const {
  return host::attention_bytes(shape, dtype, direction);
}

}  // namespace trireme
