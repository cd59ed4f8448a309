#include "lib/tokenizer/utf8.hpp"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const std::size_t n = utf8_length(text[0]);
  const unsigned first = byte_at(text, 0);
  unsigned value = n == 1 ? first : first & (0xffU >> (n + 1));
  for (std::size_t i = 1; i < n; ++i) value = value << 6 | (byte_at(text, i) & 0x3fU);
  return {static_cast<std::int32_t>(value), n};
}

CodePoint last_code_point(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xc0U) == 0x80U) --begin;
  return first_code_point(text.substr(begin));
}

void append_utf8(std::string& text, std::int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(code_point, bytes);
  for (int i = 0; i < n; ++i) text.push_back(static_cast<char>(bytes[i]));
}

std::size_t bytes_with(std::string_view symbol, std::string_view text) {
  auto bytes = text.size();
  for (auto at = text.find(symbol); at != text.npos; at = text.find(symbol, at + symbol.size()))
    bytes -= symbol.size() - 1;
  return bytes;
}

bool is_space(std::int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_numeric(std::int32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_word(std::int32_t c) {
  const auto category = utf8proc_category(c);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ND) ||
         category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC || c == 0x200c ||
         c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

std::string composed(std::string_view text) {
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(text);
  utf8proc_uint8_t* out = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), &out,
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  require(n >= 0, "{} bytes of text cannot be normalized: {}", text.size(), utf8proc_errmsg(n));
  return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(n)};
}

}  // namespace trireme
