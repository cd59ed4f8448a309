#pragma once
// Guarded blocks (kernels/guards.hpp) in device memory. Each block reserves its own address range,
// whose first and last pages are not backed by memory.
#include <map>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"
#include "kernels/guards.hpp"

namespace trireme::cuda {

// Allocator of guarded blocks on one device.
class GuardedDevice {
 public:
  explicit GuardedDevice(Runtime& runtime) : runtime_(runtime), page_(runtime.page_bytes()) {}
  ~GuardedDevice();
  GuardedDevice(const GuardedDevice&) = delete;
  GuardedDevice& operator=(const GuardedDevice&) = delete;

  // Returns a new block. The known bytes around the block are written on `stream`, which must be
  // the first stream to use the block. `name` is any number by which the caller identifies the
  // block.
  std::byte* take(std::size_t bytes, std::size_t name, Runtime::Stream);
  // Releases a block and returns its `name`. All work on the block must be done. Ends the process
  // with a message if the known bytes around the block have changed. Skips this check if the device
  // has failed.
  std::size_t give(const Block&, Runtime::Stream) noexcept;

 private:
  struct Mapped {
    std::byte* at;  // first accessible page
    std::size_t bytes, name;
    GuardedPlace place;
  };
  void release(const Mapped&) noexcept;
  std::vector<std::byte> read(const Mapped&, std::size_t begin, std::size_t end, Runtime::Stream);

  Runtime& runtime_;
  std::size_t page_;
  std::map<const std::byte*, Mapped> blocks_;  // keys: addresses of the blocks
};

}  // namespace trireme::cuda
