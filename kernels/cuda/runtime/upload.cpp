#include "kernels/cuda/runtime/upload.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "lib/base/error.hpp"

namespace trireme::cuda {

UploadRing::UploadRing(Runtime& runtime) : runtime_(runtime) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(p != MAP_FAILED, "cannot allocate an upload buffer of {} bytes", size);
  ring_ = static_cast<std::byte*>(p);
  runtime_.pin(ring_, size);
}

UploadRing::~UploadRing() {
  for (const auto& u : in_flight_) runtime_.destroy_mark(u.mark);
  for (auto* m : pool_) runtime_.destroy_mark(m);
  runtime_.unpin(ring_);
  munmap(ring_, size);
}

void UploadRing::retire_oldest() {
  runtime_.synchronize_mark(in_flight_.front().mark);
  pool_.push_back(in_flight_.front().mark);
  in_flight_.pop_front();
}

// Returns space for `bytes` bytes. Copies in flight are in ring order, and the oldest is the first
// one after `next_`. Once the copies between `next_` and the end of the ring are done, only the
// oldest copy can overlap the new space.
std::byte* UploadRing::room(std::size_t bytes) {
  if (next_ + bytes > size) {
    while (!in_flight_.empty() && in_flight_.front().begin >= next_) retire_oldest();
    next_ = 0;
  }
  const auto end = next_ + bytes;
  while (!in_flight_.empty() && in_flight_.front().begin < end && next_ < in_flight_.front().end)
    retire_oldest();
  return ring_ + next_;
}

void UploadRing::upload(std::byte* to, std::span<const std::byte> bytes, Runtime::Stream stream) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), most));
    auto* const at = room(piece.size());
    std::memcpy(at, piece.data(), piece.size());
    runtime_.copy_to_device(to, at, piece.size(), stream);
    if (pool_.empty()) pool_.push_back(runtime_.create_mark());
    runtime_.record(pool_.back(), stream);
    in_flight_.push_back({next_, next_ + piece.size(), pool_.back()});
    pool_.pop_back();
    next_ += (piece.size() + 63) / 64 * 64;
    to += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

}  // namespace trireme::cuda
