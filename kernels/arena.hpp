#pragma once
// A caching allocator over address ranges. It also keeps the memory account, a record of bytes in
// use by kind of block. The arena manages offsets and never touches memory: each backend provides
// memory for [0, reserved), and the `dry` backend provides none. All backends therefore report the
// same account.
//
// The allocator is best fit with splitting and coalescing. Among free ranges of equal size it
// prefers the lowest address. The free range at the end of the address range is used last, even if
// it fits best (Korn, Vo 1985: "In search of a better malloc"). Placement therefore does not depend
// on how far the arena once grew, and equal steps reserve equal amounts. A block becomes free as
// soon as the caller gives it back. Each free range stores the last event of every queue that used
// it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "kernels/backend.hpp"

namespace trireme {

// Formats the memory account for messages: one line for each kind with a nonzero peak, then the
// totals.
std::string describe(const Account&);

// One event ticket for each queue, indexed by Queue. 0 means no event.
using Tickets = std::array<std::uint64_t, queue_count>;

// Allocator of offsets in two address ranges, one range for each kind of Memory.
class Arena {
 public:
  // Sizes of blocks are rounded up to multiples of this many bytes.
  static constexpr std::size_t granule = 256;

  struct Taken {
    std::size_t offset, bytes;
    Tickets last;  // events that the first queue to use the block must wait for
  };

  // The parameters are the maximum numbers of bytes that the arena may reserve: in device memory
  // and in pinned host memory.
  Arena(std::size_t device_capacity, std::size_t pinned_capacity);

  // Allocates a range of at least `bytes` bytes and counts it in the memory account. Throws Error,
  // with the account in the message, if the capacity is too small.
  Taken take(std::size_t bytes, MemoryKind, Memory);
  // Frees a range. `last` holds the last event of each queue that used the range.
  void give(std::size_t offset, std::size_t bytes, MemoryKind, Memory,
            std::span<const Event> last) noexcept;
  const Account& account() const { return account_; }

 private:
  struct Free {
    std::size_t bytes;
    Tickets last;
  };
  struct Range {
    std::size_t capacity = 0, end = 0;
    std::map<std::size_t, Free> by_offset;
    std::set<std::pair<std::size_t, std::size_t>> by_size;  // pairs of (bytes, offset)
  };
  static void insert(Range&, std::size_t offset, Free);
  static Free remove(Range&, std::size_t offset);
  Range& range(Memory m) { return ranges_[static_cast<std::size_t>(m)]; }

  std::array<Range, 2> ranges_;
  Account account_;
};

}  // namespace trireme
