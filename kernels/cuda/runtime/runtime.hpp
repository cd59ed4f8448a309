#pragma once
// The calls of the CUDA runtime that order work and back memory, as an interface: queues and memory
// are tested on machines without a GPU against one that records. Each throws Error with the
// runtime's words.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme::cuda {

class Runtime {
 public:
  using Stream = void*;  // a cudaStream_t
  using Mark = void*;    // a cudaEvent_t, without timing
  virtual ~Runtime() = default;

  // Work on an urgent stream starts before work on others that waits for a place on the device.
  enum class Urgency : std::uint8_t { usual, urgent };
  virtual Stream create_stream(Urgency = Urgency::usual) = 0;
  virtual void destroy_stream(Stream) noexcept = 0;
  virtual void synchronize(Stream) = 0;
  virtual Mark create_mark() = 0;
  virtual void destroy_mark(Mark) noexcept = 0;
  virtual void record(Mark, Stream) = 0;
  virtual void wait(Stream, Mark) = 0;
  virtual bool passed(Mark) = 0;
  virtual void synchronize_mark(Mark) = 0;
  // A mark that keeps the time at which it passed; otherwise as any other.
  virtual Mark create_timed_mark() = 0;
  virtual double milliseconds(Mark begin, Mark end) = 0;  // both timed and passed

  // Address space of the device without memory behind it, which `back` puts there; both in
  // multiples of `page_bytes`.
  virtual std::size_t page_bytes() = 0;
  virtual std::size_t device_bytes() = 0;  // free when asked
  virtual std::byte* reserve(std::size_t bytes) = 0;
  virtual void back(std::byte* at, std::size_t bytes) = 0;
  virtual void release(std::byte* at, std::size_t reserved, std::size_t backed) noexcept = 0;
  // Makes pages of the host known to the device.
  virtual void pin(std::byte* at, std::size_t bytes) = 0;
  virtual void unpin(std::byte* at) noexcept = 0;

  virtual void copy_to_device(std::byte* to, const std::byte* pinned, std::size_t bytes,
                              Stream) = 0;
  virtual void copy_to_host(std::byte* to, const std::byte* device, std::size_t bytes, Stream) = 0;
  virtual void set_bytes(std::byte* at, unsigned char value, std::size_t bytes, Stream) = 0;
};

// Of one device of this process, which becomes the calling thread's.
std::unique_ptr<Runtime> open_runtime(int device);

}  // namespace trireme::cuda
