#pragma once
// The interface to hardware: memory, queues and transfers of a machine that computes the operations
// of kernels/operations.hpp. Kernels receive views and never allocate memory. Unless a comment says
// otherwise, calls are asynchronous: they put work on a queue and return.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/operations.hpp"
#include "lib/base/error.hpp"

namespace trireme {

// Streams of work. Work on one queue runs in order. Different queues are ordered only by events: a
// queue can wait for an event of another queue. `gather` and `scatter` run the collectives of
// weights and gradients. `exchange` runs the collectives of sequence-parallel and expert-parallel
// ranks. `down` and `up` run messages between pipeline stages. `host` copies offloaded activations.
enum class Queue : std::uint8_t { compute, gather, scatter, exchange, down, up, host };
inline constexpr int queue_count = 7;
std::string_view name_of(Queue);

// A point in a queue. An event has passed once all work up to `ticket` on `queue` is done. Ticket 0
// has always passed.
struct Event {
  Queue queue = Queue::compute;
  std::uint64_t ticket = 0;
};

// Purpose of a memory block. The memory account reports bytes by kind.
enum class MemoryKind : std::uint8_t {
  weights,
  optimizer,
  gradients,
  gathered,   // weights after an all-gather
  saved,      // activations kept for the backward pass
  transient,  // temporary results
  boundary,   // inputs of a pipeline stage, and its messages to other stages
  staging,    // buffers of messages in transit
  snapshot,   // copy of the training state, from which a checkpoint is written
  offloaded,  // activations moved to pinned host memory
  workspace   // scratch of kernels
};
inline constexpr int memory_kind_count = 11;
std::string_view name_of(MemoryKind);

// Memory of the device, or host memory that the device can access directly (page-locked).
enum class Memory : std::uint8_t { device, pinned };

// One block of memory, as returned by Backend::take.
struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  // rounded up to a multiple of Arena::granule
  MemoryKind kind{};
  Memory memory{};
};

// Memory use in bytes, for each MemoryKind and in total. `live` is the number of bytes in use now,
// and `peak` is the maximum so far. The numbers depend only on the sequence of calls to take and
// give, so all backends report equal accounts.
struct Account {
  std::array<std::size_t, memory_kind_count> live{}, peak{};
  std::size_t live_all = 0, peak_all = 0;
  std::size_t reserved = 0;         // highest address ever used, gaps included
  std::size_t pinned_reserved = 0;  // highest address used in Memory::pinned
};

// Properties of a backend that stay constant while it is open.
struct BackendProperties {
  std::string name;
  // True if the host may read and write device memory from `take`. The host may always access
  // pinned memory.
  bool host_readable = true;
  // Scratch memory in bytes that kernels on the compute queue need. The library takes one block of
  // this size and passes it to lend_workspace.
  std::size_t workspace_bytes = 0;
  // Number of rows of logits that the model's output layer computes at a time. The number is large
  // enough to use the hardware fully.
  std::int64_t head_rows = 256;
  // True if the backend supports run.exactness = "invariant", which needs i64 sums of quanta
  // (lib/base/fixed.hpp) and SumOrder::by_shape.
  bool invariant = true;
  // True if the backend supports products in fp8 (kernels/fp8_products.hpp).
  bool fp8 = true;
  // Tile size of attention over pieces of keys. If each piece begins at a multiple of this number
  // of keys, the results have the same bits as attention over all keys at once.
  std::int64_t key_tile = 64;
};

// Interface of a backend: a machine that owns memory and queues and computes operations.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual const BackendProperties& properties() const = 0;
  std::string_view name() const { return properties().name; }
  bool host_readable() const { return properties().host_readable; }
  std::size_t workspace_bytes() const { return properties().workspace_bytes; }
  std::int64_t head_rows() const { return properties().head_rows; }

  // Puts the operation on the queue. The memory of the operation's views must stay valid until the
  // operation is done. The struct itself may be destroyed after the call, because the backend
  // copies it if necessary.
  virtual void put(Queue, const kernel::Operation&) = 0;
  // Returns the workspace and state that kernel::Attention (forward) or kernel::AttentionGrad
  // (backward) needs for this shape and compute type.
  virtual AttentionBytes attention_bytes(const AttentionShape&, DType, Direction) const = 0;

  // Allocates a block of at least `bytes` bytes. Callers allocate and free blocks in program order.
  // Queues may still use the memory for a previous owner, so the queue `first` waits for them.
  // Throws Error, with the account in the message, if memory is exhausted.
  virtual Block take(std::size_t bytes, MemoryKind, Queue first, Memory = Memory::device) = 0;
  // Frees a block. `last` holds, for each queue that used the block, the last event after that use.
  // Never throws.
  virtual void give(const Block&, std::span<const Event> last) noexcept = 0;
  virtual const Account& account() const = 0;
  // Lends scratch memory of `workspace_bytes` bytes to the kernels on the compute queue.
  virtual void lend_workspace(View) = 0;

  // Returns an event that passes when the work put on the queue so far is done.
  virtual Event record(Queue) = 0;
  // Makes later work on the queue wait for the event. The host does not wait.
  virtual void wait(Queue, Event) = 0;
  // Returns true if the event has passed.
  virtual bool done(Event) = 0;
  // Returns the queue's handle in the device's API, for example a cudaStream_t. Returns null if the
  // backend has no such handle.
  virtual void* native(Queue) = 0;

  // Returns false if the backend discards all values that are written. Callers can then skip work
  // that only produces values.
  virtual bool keeps_values() const { return true; }

  // Copies host memory to a dense view. The caller may reuse the span as soon as the call returns.
  virtual void upload(Queue, View dst, std::span<const std::byte>) = 0;
  // Copies a dense view to host memory. Blocks until the bytes have arrived.
  virtual void download(Queue, std::span<std::byte>, ConstView src) = 0;
  // Copies device memory to a view in Memory::pinned, asynchronously on the queue.
  virtual void bring_down(Queue q, View pinned, ConstView src) {
    put(q, kernel::Copy{.dst = pinned, .src = src});
  }
  // Copies a view in Memory::pinned to device memory, asynchronously on the queue.
  virtual void bring_up(Queue q, View dst, ConstView pinned) {
    put(q, kernel::Copy{.dst = dst, .src = pinned});
  }
  // Reports that host code reads or writes memory at this point of the queue. Only backends that
  // check the order of accesses use this report.
  virtual void touched(Queue, ConstView /*read*/, View /*written*/) {}
};

}  // namespace trireme
