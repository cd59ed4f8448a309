#pragma once
// Texts that end a generation, and how much of a text may be shown before its end is known.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Where the first of the stop texts begins; npos: none is there. None of them is empty.
std::size_t stop_at(std::string_view text, std::span<const std::string> stops);

// Bytes of a growing text that stay as they are: neither what may become a stop text, nor a
// character of which bytes are missing, which decodes to U+FFFD, in some tokenizers one for each
// byte.
std::size_t stable_bytes(std::string_view text, std::span<const std::string> stops);

}  // namespace trireme
