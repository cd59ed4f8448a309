#include "lib/tokenizer/cut_place.hpp"

#include "lib/base/error.hpp"

namespace trireme {

static bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::size_t cut_place(std::string_view text, std::size_t limit) {
  expect(text.size() > limit, "only a long text is cut");
  // Cuts after the last of several line ends, because a model may have a token for two in a row.
  for (std::size_t i = limit; i > 1; --i) {
    if (text[i - 1] == '\n' && text[i] != '\n') return i;
  }
  for (std::size_t i = limit; i > 1; --i) {
    if (text[i] == ' ' && text[i - 1] != ' ') return i;
  }
  for (std::size_t i = limit; i > limit - 4; --i) {
    if (!continues_character(text[i])) return i;
  }
  return limit;
}

}  // namespace trireme
