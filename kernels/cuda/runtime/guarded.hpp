#pragma once
// Guarded blocks (kernels/guards.hpp) of a device's memory: each reserves addresses of its own, of
// which the pages between the first and the last have memory behind them.
#include <map>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"
#include "kernels/guards.hpp"

namespace trireme::cuda {

class GuardedDevice {
 public:
  explicit GuardedDevice(Runtime& runtime) : runtime_(runtime), page_(runtime.page_bytes()) {}
  ~GuardedDevice();
  GuardedDevice(const GuardedDevice&) = delete;
  GuardedDevice& operator=(const GuardedDevice&) = delete;

  // Writes the known bytes on `stream`, which is the first to use the block. `name` is the
  // caller's.
  std::byte* take(std::size_t bytes, std::size_t name, Runtime::Stream);
  // Returns its name; ends the process if known bytes have changed. All work on the block is done;
  // on a device that has failed nothing can be seen.
  std::size_t give(const Block&, Runtime::Stream) noexcept;

 private:
  struct Mapped {
    std::byte* at;  // its pages
    std::size_t bytes, name;
    GuardedPlace place;
  };
  void release(const Mapped&) noexcept;
  std::vector<std::byte> read(const Mapped&, std::size_t begin, std::size_t end, Runtime::Stream);

  Runtime& runtime_;
  std::size_t page_;
  std::map<const std::byte*, Mapped> blocks_;  // by their data
};

}  // namespace trireme::cuda
