#include "lib/comm/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace trireme {

// The processors that this process may use, one character each.
static std::string affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return {};
  std::string processors(CPU_SETSIZE, '-');
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) processors[i] = 'x';
  return processors;
}

static std::optional<int> threads_given() {
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
    const char* text = std::getenv(name);
    int n = 0;
    if (text && std::from_chars(text, text + std::strlen(text), n).ec == std::errc() && n > 0)
      return n;
  }
  return std::nullopt;
}

int share_of_processors(const std::string& mine, std::span<const std::string> all) {
  const auto overlaps = [&](const std::string& other) {
    for (std::size_t i = 0; i < std::min(mine.size(), other.size()); ++i)
      if (mine[i] == 'x' && other[i] == 'x') return true;
    return false;
  };
  const auto sharing = std::max<std::ptrdiff_t>(1, std::ranges::count_if(all, overlaps));
  return static_cast<int>(std::max<std::ptrdiff_t>(1, std::ranges::count(mine, 'x') / sharing));
}

int threads_of_rank(std::int64_t wanted, const Communicator& world) {
  // First what all ranks do together: what they were given may differ.
  const auto mine = affinity();
  const auto all = world.node().all_gather(mine);
  if (wanted > 0) return static_cast<int>(wanted);
  return threads_given().value_or(share_of_processors(mine, all));
}

}  // namespace trireme
