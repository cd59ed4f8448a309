#pragma once
// Which bytes are UTF-8.
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// Bytes of the character that begins with this byte, in well-formed text.
constexpr std::size_t utf8_length(char first) {
  const auto c = static_cast<unsigned char>(first);
  return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

// A sequence at the start of a text that is not empty: its bytes, and whether they make a whole
// character. One that does not is the longest beginning of a character, or one byte.
struct Utf8Sequence {
  std::size_t bytes;
  bool whole;
};
Utf8Sequence first_sequence(std::string_view text);

// How many bytes from the start are well-formed.
std::size_t well_formed_bytes(std::string_view text);
// With U+FFFD in place of each maximal part that is not well-formed (Unicode 3.9, as Rust and
// Python do).
std::string with_replacements(std::string_view text);

}  // namespace trireme
