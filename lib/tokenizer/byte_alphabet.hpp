#pragma once
// GPT-2's byte alphabet. It maps every byte to a printable character, so that any token can be
// written as text.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Returns the code point of each byte. A printable byte maps to itself. The other bytes map to
// consecutive code points from U+0100.
const std::array<std::int32_t, 256>& byte_alphabet();
// Returns the bytes that a token represents, or nullopt if the token contains a character outside
// the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);
// Returns the token that represents `bytes`, the inverse of bytes_of_token().
std::string token_of_bytes(std::string_view bytes);

}  // namespace trireme
