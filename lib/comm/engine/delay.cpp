#include "lib/comm/engine/delay.hpp"

#include "lib/base/rng.hpp"

namespace trireme::engine {

bool Delay::over() {
  if (source_.seed == 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (!until_) {
    const auto r = hash64(source_.seed, static_cast<std::uint64_t>(rank_), ++source_.draws);
    // Delay a quarter of the messages, so that some arrive much later than others.
    until_ = now + std::chrono::microseconds(r % 4 == 0 ? (r >> 8) % 400 : 0);
  }
  if (now < *until_) return false;
  until_.reset();
  return true;
}

}  // namespace trireme::engine
