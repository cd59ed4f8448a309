#pragma once
// Guarded blocks (kernels/guards.hpp) of the host's memory.
#include <map>

#include "kernels/guards.hpp"

namespace trireme {

class GuardedMemory {
 public:
  GuardedMemory() = default;
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // `name` is the caller's for the block. Throws Error when the system grants no more.
  std::byte* take(std::size_t bytes, std::size_t name);
  // Returns its name; ends the process if known bytes have changed.
  std::size_t give(const Block&) noexcept;

  // The pages of the block that p is in; none where it is in none.
  std::span<std::byte> pages_of(const std::byte* p) const;

 private:
  struct Mapped {
    std::byte* at;  // its pages
    std::size_t bytes, name;
    GuardedPlace place;
  };
  static void unmap(const Mapped&) noexcept;
  std::map<const std::byte*, Mapped> blocks_;  // by their data
};

}  // namespace trireme
