// Places where a text can be cut so that the ids of both parts are those of the whole text. One
// kind of place is before a space that follows any other character. The other kind is after a line
// end between two other characters. The kinds that are safe depend on how the text is divided into
// words. Known patterns have a word boundary there (split_patterns.hpp). Without words, only a
// token of the vocabulary that contains both characters could join the two sides.
#include <algorithm>

#include "lib/tokenizer/text_pipeline.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

std::optional<std::int32_t> whole_first(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::size_t n = std::min(utf8_length(text[0]), text.size());
  if (well_formed_bytes(text.substr(0, n)) != n) return std::nullopt;
  return first_code_point(text).value;
}

std::optional<std::int32_t> whole_last(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(4, text.size()); ++n) {
    const auto end = text.substr(text.size() - n);
    if ((static_cast<unsigned char>(end[0]) & 0xc0U) == 0x80U) continue;
    return utf8_length(end[0]) == n ? whole_first(end) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void TextPipeline::prepare_cuts() {
  const auto& space = pre_tokenizer_.of_space();
  if (!space.empty() && utf8_length(space[0]) == space.size())
    space_ = first_code_point(space).value;
  allows_cuts_ = space_ && pre_tokenizer_.cuts() != Cuts::never && normalizer_.local();
  if (pre_tokenizer_.cuts() == Cuts::by_vocabulary)
    allows_cuts_ = allows_cuts_ && normalizer_.only_spaces_change() && !pre_tokenizer_.byte_level();
  constexpr std::string_view spaces = " \n\t\r";
  for (const auto& token : added_) {
    // The token could cross a cut, or depend on the text after it.
    const bool spaces_alone = token.text.find_first_not_of(spaces) == std::string::npos;
    if (token.text.find_first_of(spaces) != std::string::npos &&
        (!spaces_alone || token.single_word || token.text.ends_with('\n')))
      allows_cuts_ = false;
    for (const auto& text : {token.text, normalizer_(token.text, true)}) {
      if (text.empty()) continue;
      // The second part would not know that it follows a token.
      if (token.rstrip || normalizer_.prepends())
        no_space_after_.push_back(last_code_point(text).value);
      if (token.lstrip) no_line_before_.push_back(first_code_point(text).value);
    }
  }
  for (auto* characters : {&no_space_after_, &no_line_before_}) {
    std::ranges::sort(*characters);
    characters->erase(std::ranges::unique(*characters).begin(), characters->end());
  }
}

std::optional<std::size_t> TextPipeline::cut_place(std::string_view text, std::size_t limit) const {
  if (!allows_cuts_) return std::nullopt;
  for (std::size_t place = limit; place > 1; --place)
    if (cuts_at(text, place)) return place;
  return std::nullopt;
}

bool TextPipeline::cuts_at(std::string_view text, std::size_t place) const {
  const bool at_space = text[place] == ' ';
  if (!at_space && text[place - 1] != '\n') return false;
  const auto before = whole_last(text.substr(0, at_space ? place : place - 1));
  const auto behind = whole_first(text.substr(place));
  if (!before || is_space(*before) || !behind) return false;
  if (at_space && std::ranges::binary_search(no_space_after_, *before)) return false;
  if (!at_space &&
      (is_space(*behind) || *behind == '/' || std::ranges::binary_search(no_line_before_, *behind)))
    return false;
  if (pre_tokenizer_.cuts() == Cuts::at_spaces) return true;
  // Composition may change a character depending on its neighbours. It never changes an ASCII
  // character before a space, nor a space.
  if (normalizer_.composes() && (!at_space || *before >= 0x80)) return false;
  return at_space ? bpe_.separable(*before, *space_) : bpe_.separable('\n', *behind);
}

}  // namespace trireme
