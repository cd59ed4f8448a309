#pragma once
// Interface to the functions of the CUDA runtime that order work and provide memory. Tests replace
// it with an implementation that records calls, so that queues and memory can be tested without a
// GPU. Each function throws Error, with the runtime's error text, if it fails.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme::cuda {

// One device, accessed through the CUDA runtime.
class Runtime {
 public:
  using Stream = void*;  // a cudaStream_t
  using Mark = void*;    // a cudaEvent_t, without timing unless created by create_timed_mark
  virtual ~Runtime() = default;

  // Priority of a stream. If several streams wait for space on the device, work on urgent streams
  // starts first.
  enum class Urgency : std::uint8_t { usual, urgent };
  virtual Stream create_stream(Urgency = Urgency::usual) = 0;
  virtual void destroy_stream(Stream) noexcept = 0;
  // Blocks until the stream is done. synchronize() and synchronize_mark() throw Error if this takes
  // longer than the time limit. Afterwards the device counts as stuck: its memory, streams and
  // marks stay as they are until the process ends.
  virtual void synchronize(Stream) = 0;
  // Lowers the time limit for further waits to `seconds`, or sets it if there was none.
  virtual void limit_waits(double seconds) = 0;
  virtual Mark create_mark() = 0;
  virtual void destroy_mark(Mark) noexcept = 0;
  virtual void record(Mark, Stream) = 0;
  virtual void wait(Stream, Mark) = 0;
  virtual bool passed(Mark) = 0;
  virtual void synchronize_mark(Mark) = 0;
  // Creates a mark that also stores the time at which it passes.
  virtual Mark create_timed_mark() = 0;
  // Returns the milliseconds between two marks. Both marks must be timed and must have passed.
  virtual double milliseconds(Mark begin, Mark end) = 0;

  // Returns the page size of the device in bytes. The sizes given to `reserve` and `back` are
  // multiples of it.
  virtual std::size_t page_bytes() = 0;
  // Returns the bytes of device memory that are free now.
  virtual std::size_t device_bytes() = 0;
  // Reserves device addresses that are not backed by memory.
  virtual std::byte* reserve(std::size_t bytes) = 0;
  // Maps memory to reserved addresses.
  virtual void back(std::byte* at, std::size_t bytes) = 0;
  // Frees reserved addresses and the memory of the first `backed` bytes.
  virtual void release(std::byte* at, std::size_t reserved, std::size_t backed) noexcept = 0;
  // Registers host pages as pinned memory, which the device can access directly.
  virtual void pin(std::byte* at, std::size_t bytes) = 0;
  virtual void unpin(std::byte* at) noexcept = 0;

  // Puts a copy from pinned host memory on the stream and returns.
  virtual void copy_to_device(std::byte* to, const std::byte* pinned, std::size_t bytes,
                              Stream) = 0;
  // Puts a copy to the host on the stream. If the host memory is pinned, returns immediately.
  virtual void copy_to_host(std::byte* to, const std::byte* device, std::size_t bytes, Stream) = 0;
  // Puts an operation on the stream that sets each of the `bytes` bytes at `at` to `value`.
  virtual void set_bytes(std::byte* at, unsigned char value, std::size_t bytes, Stream) = 0;
};

// Opens the runtime for a device and makes that device current in the calling thread.
// `hang_timeout` is the time limit for waits in seconds. 0 means no limit.
std::unique_ptr<Runtime> open_runtime(int device, double hang_timeout);

}  // namespace trireme::cuda
