#pragma once
// GPT-2's alphabet: a printable character for each byte, so that tokens are text.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// The code point that stands for a byte: itself where it prints, else the next one from U+0100.
const std::array<std::int32_t, 256>& byte_alphabet();
// The bytes that a token stands for; none when it has a character that stands for no byte.
std::optional<std::string> bytes_of_token(std::string_view token);
// The other way round.
std::string token_of_bytes(std::string_view bytes);

}  // namespace trireme
