#pragma once
// Memory of one device and pinned memory of its host under the arena: addresses are reserved once,
// memory is put behind them as the arena grows. So blocks never move and the account is that of
// every other backend.
#include <span>

#include "kernels/address_range.hpp"
#include "kernels/arena.hpp"
#include "kernels/cuda/runtime/guarded.hpp"
#include "kernels/cuda/runtime/queues.hpp"
#include "kernels/guarded_memory.hpp"

namespace trireme::cuda {

class DeviceMemory {
 public:
  // Reserves what is free on the device but for `headroom` bytes, and as much pinned memory as the
  // host has. Error where no more than the headroom is free. With guards the arena counts alone.
  DeviceMemory(Runtime&, Queues&, std::size_t headroom = 0, Guards = Guards::off);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // `first` waits for those who used the block before.
  Block take(std::size_t bytes, Kind, Queue first, Memory);
  void give(const Block&, std::span<const Event> last) noexcept;
  const Account& account() const { return arena_.account(); }

  // One copy by the driver stays within one registered range of pinned memory: the bytes from p to
  // the end of its range; no limit where p is in other memory.
  std::size_t copied_whole(const std::byte* p) const;

 private:
  // Addresses [begin, begin + reserved), memory behind the first `backed` bytes.
  struct Range {
    std::byte* begin = nullptr;
    std::size_t reserved = 0, backed = 0, page = 1;
  };
  void grow(Memory, std::size_t end);
  std::byte* take_guarded(std::size_t bytes, std::size_t offset, Queue first, Memory);
  std::size_t give_guarded(const Block&, std::span<const Event> last) noexcept;  // its offset
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
