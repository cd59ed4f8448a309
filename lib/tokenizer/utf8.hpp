#pragma once
// UTF-8 decoding and encoding, Unicode normalization, and the character classes that tokenizers
// use.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/utf8_bytes.hpp"  // IWYU pragma: export

namespace trireme {

// A code point and the length of its UTF-8 encoding.
struct CodePoint {
  std::int32_t value;
  std::size_t bytes;
};

// Return the first or the last code point of a text. The text must be well-formed and not empty.
CodePoint first_code_point(std::string_view text);
CodePoint last_code_point(std::string_view text);
// Appends the UTF-8 encoding of a code point.
void append_utf8(std::string& text, std::int32_t code_point);

// Returns the length of `text` in bytes, counting each occurrence of `symbol` as one byte.
std::size_t bytes_with(std::string_view symbol, std::string_view text);

bool is_space(std::int32_t code_point);    // Unicode property White_Space
bool is_numeric(std::int32_t code_point);  // general categories Nd, Nl and No
bool is_word(std::int32_t code_point);     // letters, marks, numbers and connectors

// Returns `text` in Unicode normalization form C.
std::string composed(std::string_view text);

}  // namespace trireme
