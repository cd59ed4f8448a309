#pragma once
// Uploads from the host to the device. An upload copies the bytes immediately into a ring buffer of
// pinned memory. The stream later copies them from there to the device. The ring buffer is
// allocated at construction and is not part of the account.
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"

namespace trireme::cuda {

// Ring buffer in pinned memory.
class UploadRing {
 public:
  static constexpr std::size_t size = std::size_t{16} << 20;
  static constexpr std::size_t most = size / 4;  // bytes of one copy

  explicit UploadRing(Runtime&);
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Copies `bytes` to the device address `to`. When the call returns, the caller may change
  // `bytes`. Blocks only if the ring is full.
  void upload(std::byte* to, std::span<const std::byte> bytes, Runtime::Stream);

 private:
  struct InFlight {
    std::size_t begin, end;
    Runtime::Mark mark;
  };
  std::byte* room(std::size_t bytes);
  void retire_oldest();

  Runtime& runtime_;
  std::byte* ring_;
  std::size_t next_ = 0;
  std::deque<InFlight> in_flight_;
  std::vector<Runtime::Mark> pool_;
};

}  // namespace trireme::cuda
