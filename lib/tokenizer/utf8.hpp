#pragma once
// UTF-8 and the classes of code points that tokenizers speak of.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Bytes of the character that begins with this byte, in well-formed text.
constexpr std::size_t utf8_length(char first) {
  const auto c = static_cast<unsigned char>(first);
  return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

struct CodePoint {
  std::int32_t value;
  std::size_t bytes;
};

// Of well-formed text that is not empty.
CodePoint first_code_point(std::string_view text);
CodePoint last_code_point(std::string_view text);
void append_utf8(std::string& text, std::int32_t code_point);

// How many bytes from the start are well-formed.
std::size_t well_formed_bytes(std::string_view text);
// With U+FFFD in place of each maximal part that is not well-formed (Unicode 3.9, as Rust and
// Python do).
std::string with_replacements(std::string_view text);

bool is_space(std::int32_t code_point);    // White_Space
bool is_numeric(std::int32_t code_point);  // Nd, Nl, No
bool is_word(std::int32_t code_point);     // letters, marks, numbers, connectors

// Normalization form C.
std::string composed(std::string_view text);

}  // namespace trireme
