#pragma once
// Caching allocator over address ranges, with the account. It knows offsets, not memory: a backend
// backs [0, reserved) with whatever it has, and `dry` with nothing, so all give the same account.
//
// Best fit with splitting and coalescing, lowest address first among equals; the free range at the
// end comes last, however long it is (Korn, Vo 1985: "In search of a better malloc"). So where a
// block goes does not depend on how far the arena once grew, and equal steps reserve alike. Blocks
// are free as soon as they are given back; a free range keeps the last event of every queue that
// used it.
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

std::string describe(const Account&);  // one line for each kind in use, for messages

using Tickets = std::array<std::uint64_t, queue_count>;

class Arena {
 public:
  static constexpr std::size_t granule = 256;

  struct Taken {
    std::size_t offset, bytes;
    Tickets last;  // the taker's first queue waits for these
  };

  // Bytes that may be reserved of each Memory.
  Arena(std::size_t device_capacity, std::size_t pinned_capacity);

  Taken take(std::size_t bytes, Kind, Memory);
  void give(std::size_t offset, std::size_t bytes, Kind, Memory,
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
    std::set<std::pair<std::size_t, std::size_t>> by_size;  // bytes, offset
  };
  static void insert(Range&, std::size_t offset, Free);
  static Free remove(Range&, std::size_t offset);
  Range& range(Memory m) { return ranges_[static_cast<std::size_t>(m)]; }

  std::array<Range, 2> ranges_;
  Account account_;
};

}  // namespace trireme
