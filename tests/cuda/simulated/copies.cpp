#include "tests/cuda/simulated/copies.hpp"

#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme::simulated {
namespace {

constexpr std::size_t bytes = 16;

struct Copy {
  void* to;
  const void* from;
};
struct Thread {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};
std::vector<Thread> threads;

Thread& of(unsigned thread) {
  if (thread >= threads.size()) threads.resize(thread + 1);
  return threads[thread];
}

}  // namespace

void start_copy(unsigned thread, void* to, const void* from) {
  for (const void* p : {static_cast<const void*>(to), from})
    require(reinterpret_cast<std::uintptr_t>(p) % bytes == 0,
            "a copy of 16 bytes to shared memory has the address {}", p);
  of(thread).open.push_back({to, from});
}

void end_copies(unsigned thread) {
  auto& t = of(thread);
  t.groups.push_back(std::move(t.open));
  t.open.clear();
}

void wait_for_copies(unsigned thread, int groups) {
  auto& t = of(thread);
  for (; t.groups.size() > static_cast<std::size_t>(groups); t.groups.pop_front())
    for (const auto& c : t.groups.front())
      if (c.from)
        std::memcpy(c.to, c.from, bytes);
      else
        std::memset(c.to, 0, bytes);
}

std::size_t forget_copies() {
  std::size_t left = 0;
  for (auto& t : threads) {
    left += t.open.size();
    for (const auto& g : t.groups) left += g.size();
    t = {};
  }
  return left;
}

}  // namespace trireme::simulated
