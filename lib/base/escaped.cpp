#include "lib/base/escaped.hpp"

#include <fmt/format.h>

#include "lib/base/utf8_bytes.hpp"

namespace trireme {

// Returns true if the character controls a terminal or changes the position of its neighbors.
static bool is_control(std::string_view c) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(c[i]); };
  if (c.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (c.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;  // U+0080 to U+009F
  if (c.size() != 3 || byte(0) != 0xe2) return false;
  // U+2028 to U+202E are line separators and direction marks. U+2066 to U+2069 are direction marks.
  return (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
         (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

// Returns the character at the start of `text`, escaped byte by byte as in \x1b. Returns an empty
// string if the character needs no escape.
static std::string escape_at(std::string_view text, Utf8Sequence s) {
  std::string out;
  const auto c = text.substr(0, s.bytes);
  if (s.whole && !is_control(c)) return out;
  for (const char byte : c) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return out;
}

std::string escaped(std::string_view text, std::size_t most) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    const auto s = first_sequence(rest);
    std::string shown = rest[0] == '\n'   ? "\\n"
                        : rest[0] == '\t' ? "\\t"
                        : rest[0] == '\\' ? "\\\\"
                                          : escape_at(rest, s);
    if (shown.empty()) shown = rest.substr(0, s.bytes);
    if (line.size() + shown.size() > most)
      return line + fmt::format("... ({} bytes in all)", text.size());
    line += shown;
    at += s.bytes;
  }
  return line;
}

std::string without_controls(std::string_view message) {
  std::string out;
  for (std::size_t at = 0; at < message.size();) {
    const auto rest = message.substr(at);
    const auto s = first_sequence(rest);
    const auto escape = rest[0] == '\n' ? std::string() : escape_at(rest, s);
    out += escape.empty() ? rest.substr(0, s.bytes) : escape;
    at += s.bytes;
  }
  return out;
}

}  // namespace trireme
