#include "lib/comm/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace trireme {

int threads_of_rank(std::int64_t wanted, const Communicator& world) {
  if (wanted > 0) return static_cast<int>(wanted);
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
    const char* text = std::getenv(name);
    int n = 0;
    if (text && std::from_chars(text, text + std::strlen(text), n).ec == std::errc() && n > 0)
      return n;
  }
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int available = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return std::max(1, available / world.size());
}

}  // namespace trireme
