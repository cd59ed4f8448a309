#include "lib/base/utf8_bytes.hpp"

#include <cstdint>
#include <cstring>

namespace trireme {

static unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

Utf8Sequence first_sequence(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {1, true};
  if (first < 0xc2 || first > 0xf4) return {1, false};
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    unsigned low = 0x80, high = 0xbf;
    if (i == 1) {  // exclude overlong forms, surrogates and values above U+10FFFF
      if (first == 0xe0) low = 0xa0;
      if (first == 0xed) high = 0x9f;
      if (first == 0xf0) low = 0x90;
      if (first == 0xf4) high = 0x8f;
    }
    if (i >= text.size() || byte_at(text, i) < low || byte_at(text, i) > high) return {i, false};
  }
  return {length, true};
}

std::size_t well_formed_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Sequence s = first_sequence(text.substr(at));
    if (!s.whole) return at;
    at += s.bytes;
  }
  return at;
}

std::string with_replacements(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t n = well_formed_bytes(text);
    out.append(text.substr(0, n));
    text.remove_prefix(n);
    if (text.empty()) break;
    out.append("\xEF\xBF\xBD");
    text.remove_prefix(first_sequence(text).bytes);
  }
  return out;
}

}  // namespace trireme
