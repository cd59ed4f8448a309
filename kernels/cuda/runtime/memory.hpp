#pragma once
// Memory of one device, and pinned memory of its host, for an arena. Addresses are reserved once,
// and physical memory is mapped to them as the arena grows. Blocks therefore never move, and all
// backends report the same account.
#include <span>

#include "kernels/address_range.hpp"
#include "kernels/arena.hpp"
#include "kernels/cuda/runtime/guarded.hpp"
#include "kernels/cuda/runtime/queues.hpp"
#include "kernels/guarded_memory.hpp"

namespace trireme::cuda {

// Owner of the memory of a CUDA backend.
class DeviceMemory {
 public:
  // Reserves addresses for the memory that is free on the device, less `headroom` bytes, and for as
  // much pinned memory as the host has. Throws Error if the free memory does not exceed the
  // headroom. With guards, the arena only keeps the account.
  DeviceMemory(Runtime&, Queues&, std::size_t headroom = 0, Guards = Guards::off);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Allocates a block. The queue `first` waits for the work that previously used the block's
  // memory.
  Block take(std::size_t bytes, MemoryKind, Queue first, Memory);
  void give(const Block&, std::span<const Event> last) noexcept;
  const Account& account() const { return arena_.account(); }

  // Returns how many bytes from `p` a single copy may cover. The driver requires that a copy stays
  // within one registered range of pinned memory. Memory that is not pinned has no limit.
  std::size_t copied_whole(const std::byte* p) const;

 private:
  // Reserved addresses [begin, begin + reserved). The first `backed` bytes are backed by memory.
  struct Range {
    std::byte* begin = nullptr;
    std::size_t reserved = 0, backed = 0, page = 1;
  };
  void grow(Memory, std::size_t end);
  std::byte* take_guarded(std::size_t bytes, std::size_t offset, Queue first, Memory);
  // Waits for the queues that used the block, releases the block and returns its offset in the
  // arena.
  std::size_t give_guarded(const Block&, std::span<const Event> last) noexcept;
  Range& range(Memory m) { return m == Memory::device ? device_ : host_; }

  Runtime& runtime_;
  Queues& queues_;
  Range device_;
  AddressRange host_addresses_;
  Range host_;
  std::vector<std::byte*> pins_;
  Arena arena_;
  Guards guards_;
  GuardedDevice guarded_;
  GuardedMemory guarded_pinned_;
};

}  // namespace trireme::cuda
