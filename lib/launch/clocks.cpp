#include "lib/launch/clocks.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/trace.hpp"
#include "lib/base/error.hpp"

namespace trireme::launch {

std::int64_t clock_offset(std::span<const BarrierSeen> mine, std::span<const BarrierSeen> theirs) {
  expect(!mine.empty() && mine.size() == theirs.size(),
         "both ranks must have seen the same barriers");
  std::int64_t low = INT64_MIN, high = INT64_MAX;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    low = std::max(low, theirs[i].entered - mine[i].left);
    high = std::min(high, theirs[i].left - mine[i].entered);
  }
  return low <= 0 && high >= 0 ? 0 : low + (high - low) / 2;
}

std::int64_t offset_to_root(const Communicator& world) {
  if (world.size() == 1) return 0;
  // Several barriers, because any rank may be late at one of them.
  std::vector<BarrierSeen> mine(8);
  for (auto& seen : mine) {
    double nothing = 0;
    seen.entered = Trace::nanoseconds();
    world.all_reduce_max({&nothing, 1});
    seen.left = Trace::nanoseconds();
  }
  auto text =
      std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(BarrierSeen));
  world.broadcast(text);
  std::vector<BarrierSeen> root(mine.size());
  std::memcpy(root.data(), text.data(), text.size());
  return clock_offset(mine, root);
}

}  // namespace trireme::launch
