#pragma once
// Guarded blocks (kernels/guards.hpp) in host memory.
#include <map>

#include "kernels/guards.hpp"

namespace trireme {

// Allocator of guarded blocks in host memory. Each block is a separate memory mapping.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Maps a guarded block of `bytes` and returns its address. `name` is any number by which the
  // caller identifies the block. Throws Error if the system grants no more memory.
  std::byte* take(std::size_t bytes, std::size_t name);
  // Unmaps the block and returns its `name`. Ends the process with a message if the known bytes
  // around the block have changed.
  std::size_t give(const Block&) noexcept;

  // Returns all accessible pages of the block that contains `p`. Returns an empty span if no block
  // contains `p`.
  std::span<std::byte> pages_of(const std::byte* p) const;

 private:
  struct Mapped {
    std::byte* at;  // first accessible page
    std::size_t bytes, name;
    GuardedPlace place;
  };
  static void unmap(const Mapped&) noexcept;
  std::map<const std::byte*, Mapped> blocks_;  // keys: addresses of the blocks
};

}  // namespace trireme
