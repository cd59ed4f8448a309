#pragma once
// UTF-8 and the classes of code points that tokenizers speak of.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/utf8_bytes.hpp"  // IWYU pragma: export

namespace trireme {

struct CodePoint {
  std::int32_t value;
  std::size_t bytes;
};

// Of well-formed text that is not empty.
CodePoint first_code_point(std::string_view text);
CodePoint last_code_point(std::string_view text);
void append_utf8(std::string& text, std::int32_t code_point);

// Bytes of a text in which each `symbol` stands for one.
std::size_t bytes_with(std::string_view symbol, std::string_view text);

bool is_space(std::int32_t code_point);    // White_Space
bool is_numeric(std::int32_t code_point);  // Nd, Nl, No
bool is_word(std::int32_t code_point);     // letters, marks, numbers, connectors

// Normalization form C.
std::string composed(std::string_view text);

}  // namespace trireme
