#pragma once
// Memory for debugging, in which each block has pages of its own:
//
//   no access | known bytes, the block, known bytes up to Arena::granule | no access
//
// so that what is read or written beyond the last granule ends the process at once, and what is
// written between it and the block shows when the block is given back, as the known bytes have
// changed. Nothing is used again: what is touched after it was given back ends the process, too.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kernels/backend.hpp"

namespace trireme {

enum class Guards : std::uint8_t { off, on };

// Bytes from the beginning of the pages that are accessible.
struct GuardedPlace {
  std::size_t begin, end;    // of the block
  std::size_t pages;         // all of them
  std::size_t watched_from;  // known bytes are [watched_from, begin) and [end, pages)
  std::size_t reserved(std::size_t page) const { return pages + 2 * page; }
};
GuardedPlace guarded_place(std::size_t bytes, std::size_t page);

inline constexpr auto known_byte = std::byte{0xa5};
inline constexpr auto fresh_byte = std::byte{0xff};  // of the block when it is taken: NaNs

// What is wrong, if anything is, with the known bytes before and behind a block.
std::optional<std::string> guard_damage(std::span<const std::byte> before,
                                        std::span<const std::byte> behind, std::size_t bytes, Kind);

// Says what is wrong and ends the process: memory is given back where nothing may throw.
[[noreturn]] void end_for_damage(const std::string& what) noexcept;

}  // namespace trireme
