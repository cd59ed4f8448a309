#include "lib/tokenizer/byte_alphabet.hpp"

#include "lib/tokenizer/utf8.hpp"

namespace trireme {

const std::array<std::int32_t, 256>& byte_alphabet() {
  static const auto alphabet = [] {
    std::array<std::int32_t, 256> code_points{};
    std::int32_t next = 256;
    for (std::int32_t b = 0; b < 256; ++b) {
      const bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      code_points[static_cast<std::size_t>(b)] = prints ? b : next++;
    }
    return code_points;
  }();
  return alphabet;
}

std::optional<std::string> bytes_of_token(std::string_view token) {
  static const auto bytes = [] {
    std::array<int, 512> of{};
    of.fill(-1);
    for (int b = 0; b < 256; ++b)
      of[static_cast<std::size_t>(byte_alphabet()[static_cast<std::size_t>(b)])] = b;
    return of;
  }();
  std::string out;
  while (!token.empty()) {
    const auto c = first_code_point(token);
    if (c.value >= 512 || bytes[static_cast<std::size_t>(c.value)] < 0) return std::nullopt;
    out.push_back(static_cast<char>(bytes[static_cast<std::size_t>(c.value)]));
    token.remove_prefix(c.bytes);
  }
  return out;
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char c : bytes) append_utf8(token, byte_alphabet()[static_cast<unsigned char>(c)]);
  return token;
}

}  // namespace trireme
