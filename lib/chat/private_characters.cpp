#include "lib/chat/private_characters.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

// Planes 15 and 16 of Unicode are for private use. Characters [0, 0x8000) of the chosen plane stand
// for tokens, and [0x8000, 0xf000) mark messages. Plane 16 ends with the marks of generation.
constexpr std::int32_t plane_15 = 0xf0000, plane_16 = 0x100000;
constexpr std::int32_t marks = 0x8000, marks_end = 0xf000, generation = plane_16 + 0xf000;
constexpr std::int32_t marks_of_message = 6;

std::string utf8(std::int32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return text;
}

// Returns the character at the start of a text if it is of a private plane, and 0 otherwise.
std::int32_t private_at(std::string_view text) {
  if (text.size() < 4 || static_cast<unsigned char>(text[0]) < 0xf3) return 0;
  const auto c = first_code_point(text).value;
  return c >= plane_15 ? c : 0;
}

}  // namespace

LongestText::LongestText(std::vector<std::string> texts)
    : texts_(std::move(texts)), by_first_(256) {
  for (std::size_t i = 0; i < texts_.size(); ++i)
    if (!texts_[i].empty()) by_first_[static_cast<unsigned char>(texts_[i][0])].push_back(i);
  for (auto& some : by_first_)
    std::ranges::stable_sort(some, std::greater(), [&](auto i) { return texts_[i].size(); });
}

std::optional<std::size_t> LongestText::at(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  for (const auto i : by_first_[static_cast<unsigned char>(text[0])])
    if (text.starts_with(texts_[i])) return i;
  return std::nullopt;
}

PrivateCharacters::PrivateCharacters(std::string_view data) : plane_(plane_16) {
  bool uses_15 = false, uses_16 = false;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (static_cast<unsigned char>(data[i]) < 0xf3) continue;
    const auto c = private_at(data.substr(i));
    uses_16 = uses_16 || c >= plane_16;
    uses_15 = uses_15 || (c >= plane_15 && c < plane_16);
    require(c < generation,
            "the conversation contains the private-use character U+{:X}, which "
            "chat templates need for marks: remove it",
            c);
  }
  require(!uses_15 || !uses_16,
          "the conversation contains private-use characters of both planes 15 and 16 of Unicode: "
          "remove those of one plane");
  if (uses_16) plane_ = plane_15;
}

static std::int32_t mark_of(std::size_t message, MessagePart part) {
  require(message < (marks_end - marks) / marks_of_message,
          "the conversation has more than {} messages", (marks_end - marks) / marks_of_message);
  return marks + static_cast<std::int32_t>(message) * marks_of_message +
         2 * static_cast<std::int32_t>(part);
}

std::string PrivateCharacters::character(std::int32_t number) const {
  return utf8(plane_ + number);
}

static std::string without_tokens_in(std::string_view text, const LongestText& tokens,
                                     std::int32_t plane) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto token = tokens.at(text.substr(i));
    if (token && std::cmp_less(*token, marks)) {
      append_utf8(out, plane + static_cast<std::int32_t>(*token));
      i += tokens.texts()[*token].size();
    } else {
      out += text[i++];
    }
  }
  return out;
}

OrderedJson PrivateCharacters::without_tokens(const OrderedJson& value,
                                              const LongestText& tokens) const {
  if (value.is_string())
    return without_tokens_in(value.get_ref<const std::string&>(), tokens, plane_);
  auto out = value;
  if (value.is_array())
    for (auto& one : out) one = without_tokens(one, tokens);
  if (value.is_object()) {
    out = OrderedJson::object();
    for (const auto& [key, one] : value.items())
      out[without_tokens_in(key, tokens, plane_)] = without_tokens(one, tokens);
  }
  return out;
}

std::string PrivateCharacters::begin(std::size_t message, MessagePart part) const {
  return character(mark_of(message, part));
}

std::string PrivateCharacters::end(std::size_t message, MessagePart part) const {
  return character(mark_of(message, part) + 1);
}

std::optional<std::size_t> PrivateCharacters::token_at(std::string_view text) const {
  const auto c = private_at(text) - plane_;
  return c >= 0 && c < marks ? std::optional(static_cast<std::size_t>(c)) : std::nullopt;
}

bool PrivateCharacters::is_message_mark(std::string_view text) const {
  const auto c = private_at(text);
  return c >= plane_ + marks && c < plane_ + marks_end;
}

bool PrivateCharacters::is_mark(std::string_view text) const {
  return is_message_mark(text) || private_at(text) >= generation;
}

GenerationMarks generation_marks() {
  return {utf8(generation), utf8(generation + 1)};
}

}  // namespace trireme
