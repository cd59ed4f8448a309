#include "lib/launch/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "lib/base/log.hpp"

namespace trireme::launch {

// Returns this process's affinity mask as text with one character per processor.
static std::string affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return {};
  std::string processors(CPU_SETSIZE, '-');
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) processors[i] = 'x';
  return processors;
}

constexpr int most_threads = 4096;

static std::optional<int> threads_given() {
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
    const char* text = std::getenv(name);
    int n = 0;
    if (!text || std::from_chars(text, text + std::strlen(text), n).ec != std::errc() || n <= 0)
      continue;
    require(n <= most_threads, "{} = {} is too large: a rank can use at most {} threads", name, n,
            most_threads);
    return n;
  }
  return std::nullopt;
}

static bool overlap(const std::string& a, const std::string& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] == 'x' && b[i] == 'x') return true;
  return false;
}

int share_of_processors(const std::string& mine, std::span<const std::string> all) {
  const auto shares = [&](const std::string& other) { return overlap(mine, other); };
  const auto sharing = std::max<std::ptrdiff_t>(1, std::ranges::count_if(all, shares));
  return static_cast<int>(std::max<std::ptrdiff_t>(1, std::ranges::count(mine, 'x') / sharing));
}

bool badly_bound(std::span<const std::string> all) {
  for (const auto& a : all)
    for (const auto& b : all)
      if (a != b && overlap(a, b)) return true;
  return false;
}

int processors_of_rank(const Communicator& world) {
  const auto mine = affinity();
  return share_of_processors(mine, world.node().all_gather(mine));
}

int threads_of_rank(std::int64_t wanted, const Communicator& world) {
  // Call the collective before any return, because ranks may return at different places.
  const auto mine = affinity();
  const auto all = world.node().all_gather(mine);
  if (badly_bound(all))
    log_warning(
        "ranks of this node are bound to sets of processors that overlap partly, so some "
        "processors are shared while others are idle. Bind each rank to its own processors, or do "
        "not bind ranks");
  if (wanted > 0) return static_cast<int>(wanted);
  return threads_given().value_or(share_of_processors(mine, all));
}

}  // namespace trireme::launch
