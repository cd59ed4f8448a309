#pragma once
// Checks of UTF-8 encoding, byte by byte.
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// The UTF-8 byte order mark, which some programs write at the start of a file. The mark is not part
// of the text.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// Returns the length in bytes of the character that begins with this byte. The text must be valid
// UTF-8.
constexpr std::size_t utf8_length(char first) {
  const auto c = static_cast<unsigned char>(first);
  return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

// The bytes at the beginning of a text. If `whole` is true, they encode one character. Otherwise
// they are the longest incomplete character, or one invalid byte.
struct Utf8Sequence {
  std::size_t bytes;
  bool whole;
};
// Returns the sequence at the beginning of a text. The text must not be empty.
Utf8Sequence first_sequence(std::string_view text);

// Returns the length in bytes of the longest valid prefix of a text.
std::size_t well_formed_bytes(std::string_view text);
// Replaces each maximal invalid part with U+FFFD, as Rust and Python do (Unicode standard,
// section 3.9).
std::string with_replacements(std::string_view text);

}  // namespace trireme
