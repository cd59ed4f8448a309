#pragma once
// Finds stop texts, which end a generation, and determines how much of an unfinished text can
// already be shown.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Returns the offset of the first occurrence of a stop text, or npos if there is none. Stop texts
// must not be empty.
std::size_t stop_at(std::string_view text, std::span<const std::string> stops);

// Returns the number of leading bytes of a growing text that cannot change any more. The number
// excludes the end of the text if it may become a stop text or is an incomplete character. An
// incomplete character decodes to U+FFFD, in some tokenizers once for each of its bytes.
std::size_t stable_bytes(std::string_view text, std::span<const std::string> stops);

}  // namespace trireme
