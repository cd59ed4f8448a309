#pragma once
// Bytes of the host on their way to the device: copied into a ring of pinned memory at once, from
// there when the stream comes to it. The ring is there from the beginning and not in the account.
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"

namespace trireme::cuda {

class UploadRing {
 public:
  static constexpr std::size_t size = std::size_t{16} << 20;
  static constexpr std::size_t most = size / 4;  // of one copy

  explicit UploadRing(Runtime&);
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Returns when `bytes` may be changed; waits only for room in the ring.
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
