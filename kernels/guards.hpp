#pragma once
// Guarded memory for debugging (run.guards). Each block has separate pages:
//
//   no access | known bytes, the block, known bytes up to Arena::granule | no access
//
// An access to an inaccessible page ends the process immediately. A write between the block and
// these pages changes the known bytes, which are checked when the block is freed. Addresses are
// never reused, so an access to a freed block also ends the process.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kernels/backend.hpp"

namespace trireme {

enum class Guards : std::uint8_t { off, on };

// Layout of a guarded block. All members are offsets in bytes from its first accessible page.
struct GuardedPlace {
  std::size_t begin, end;    // the block is [begin, end)
  std::size_t pages;         // end of the accessible pages
  std::size_t watched_from;  // known bytes are [watched_from, begin) and [end, pages)
  std::size_t reserved(std::size_t page) const { return pages + 2 * page; }
};
// Returns the layout of a block of `bytes` on a system whose pages have `page` bytes.
GuardedPlace guarded_place(std::size_t bytes, std::size_t page);

inline constexpr auto known_byte = std::byte{0xa5};
// Value of each byte of a new block. Floating-point numbers that consist of these bytes are NaN.
inline constexpr auto fresh_byte = std::byte{0xff};

// Returns a message if the known bytes (bytes of a fixed value) before or after a block have
// changed. `bytes` is the size of the block. Returns nullopt if they have not changed.
std::optional<std::string> guard_damage(std::span<const std::byte> before,
                                        std::span<const std::byte> behind, std::size_t bytes,
                                        MemoryKind);

// Logs `what` and aborts the process. An exception is not possible, because blocks are freed in
// noexcept functions.
[[noreturn]] void end_for_damage(const std::string& what) noexcept;

}  // namespace trireme
