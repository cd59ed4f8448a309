#pragma once
// The threads of a kernel's blocks, one after the other on one thread of the host. Each runs until
// it has to wait for others, so what they may rely on is what they wait for. Blocks, warps and the
// lanes of a warp take their turns in a random order. Between a barrier and the next a thread that
// reads what another writes sees it too early or too late sooner or later.
#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

namespace trireme::simulated {

// Of the thread that runs.
struct Place {
  uint3 thread{}, block{};
  dim3 threads, blocks;
  float* shared = nullptr;  // of the size that the launch gave
};
Place& here();

using Where = std::source_location;

// Runs `thread` for each thread of each block. Throws Error where the grid is none that a device
// takes, and where threads wait for each other in vain.
void run_grid(dim3 blocks, dim3 threads, std::size_t shared_bytes,
              const std::function<void()>& thread);

// While one lives, only the last `n` blocks of each grid run: of grids too large to run as a whole.
class LastBlocks {
 public:
  explicit LastBlocks(std::uint64_t n);
  ~LastBlocks();
  LastBlocks(const LastBlocks&) = delete;
  LastBlocks& operator=(const LastBlocks&) = delete;
};

// Waits for the block. All threads that are left must come to the same place.
void meet_block(const Where&);
// Waits for the lanes of `mask`, which must all be there, and returns what lane `from` brought.
std::uint64_t meet_warp(unsigned mask, std::uint64_t brought, unsigned from, const Where&);
// The same; a bit for each lane that brought something else than 0.
unsigned vote(unsigned mask, bool brought, const Where&);

template <class T>
T from_lane(unsigned mask, T value, unsigned lane, const Where& where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(mask, bits, lane, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace trireme::simulated
