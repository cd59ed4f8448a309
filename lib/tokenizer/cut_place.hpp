#pragma once
// Where a long text is cut into parts that are encoded separately.
#include <cstddef>
#include <string_view>

namespace trireme {

// Maximum length in bytes of a text that is encoded in one call. SentencePiece's time per byte
// grows with the length, and each thread needs several hundred times the length in memory. Longer
// documents are cut after a line end if possible, otherwise before a space, otherwise between two
// characters.
inline constexpr std::size_t piece_bytes = std::size_t{1} << 14;

// Returns where to cut a `text` that is longer than `limit`: a position in [1, limit].
std::size_t cut_place(std::string_view text, std::size_t limit);

}  // namespace trireme
