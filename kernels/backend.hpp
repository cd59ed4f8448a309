#pragma once
// The hardware contract: memory, queues and transfers of a machine that computes the operations of
// kernels/operations.hpp. Kernels see Views, allocate nothing, and are asynchronous on their
// queue unless said otherwise.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/operations.hpp"
#include "lib/base/error.hpp"

namespace trireme {

// Work put on one queue runs in order; queues are ordered against each other by events alone.
enum class Queue : std::uint8_t { compute, gather, scatter, exchange, down, up, host };
inline constexpr int queue_count = 7;
std::string_view name_of(Queue);

// Has passed when all work put on `queue` up to `ticket` is done; ticket 0 has always passed.
struct Event {
  Queue queue = Queue::compute;
  std::uint64_t ticket = 0;
};

// What a block is for, in the account.
enum class Kind : std::uint8_t {
  weights,
  optimizer,
  gradients,
  gathered,
  saved,
  transient,
  boundary,
  staging,
  snapshot,
  offloaded,
  workspace
};
inline constexpr int kind_count = 11;
std::string_view name_of(Kind);

enum class Memory : std::uint8_t { device, pinned };

struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  // rounded up by the arena
  Kind kind{};
  Memory memory{};
};

// Bytes, a pure function of the sequence of takes and gives: equal on every backend.
struct Account {
  std::array<std::size_t, kind_count> live{}, peak{};
  std::size_t live_all = 0, peak_all = 0;
  std::size_t reserved = 0;         // most address space ever needed, gaps included
  std::size_t pinned_reserved = 0;  // the same of Memory::pinned
};

// What does not change while a backend is open.
struct BackendProperties {
  std::string name;
  // May the host read and write the memory that `take` returns? It always may if that is pinned.
  bool host_readable = true;
  // Scratch that kernels on compute need at all times: lib/ takes it once and lends it.
  std::size_t workspace_bytes = 0;
  // Rows of logits that the head makes at a time: enough to keep this machine busy.
  std::int64_t head_rows = 256;
  // Has it what run.exactness = "invariant" asks for: counts of quanta and SumOrder::by_shape?
  bool invariant = true;
  // Attention's pieces of keys begin at multiples of this, for the bits of all keys at once.
  std::int64_t key_tile = 64;
  // Has it what keeps keys and values: CachedAttention and SumOrder::by_row?
  bool caches = true;
};

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

  // Puts the operation on the queue. The memory of its views stays valid until it is done; the
  // struct itself is copied if that is later.
  virtual void put(Queue, const kernel::Operation&) = 0;
  // Of kernel::Attention or, backward, kernel::AttentionGrad.
  virtual AttentionBytes attention_bytes(const AttentionShape&, DType, Direction) const = 0;

  // Memory. Blocks are taken and given back in program order. `last` names for each queue the last
  // event that used the block; the next taker's `first` queue waits for them. Throws Error with the
  // account when memory is exhausted. `give` never throws.
  virtual Block take(std::size_t bytes, Kind, Queue first, Memory = Memory::device) = 0;
  virtual void give(const Block&, std::span<const Event> last) noexcept = 0;
  virtual const Account& account() const = 0;
  virtual void lend_workspace(View) = 0;

  // Queues.
  virtual Event record(Queue) = 0;
  virtual void wait(Queue, Event) = 0;
  virtual bool done(Event) = 0;
  virtual void* native(Queue) = 0;

  // False: nothing is kept of what is written, so what costs time to make need not be.
  virtual bool keeps_values() const { return true; }

  // Transfers. `upload` has copied its span when it returns; `download` returns when the bytes are
  // there (dense views both).
  virtual void upload(Queue, View dst, std::span<const std::byte>) = 0;
  virtual void download(Queue, std::span<std::byte>, ConstView src) = 0;
  // The same bytes from or to Memory::pinned, where the queue comes to it: the host waits for
  // nothing.
  virtual void bring_down(Queue q, View pinned, ConstView src) {
    put(q, kernel::Copy{.dst = pinned, .src = src});
  }
  virtual void bring_up(Queue q, View dst, ConstView pinned) {
    put(q, kernel::Copy{.dst = dst, .src = pinned});
  }
  // Says that the host itself reads or writes memory at this point of the queue. Only a backend
  // that checks the order of accesses does anything.
  virtual void touched(Queue, ConstView /*read*/, View /*written*/) {}
};

}  // namespace trireme
