#include "lib/tokenizer/decoder.hpp"

#include <numeric>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/tokenizer/byte_alphabet.hpp"
#include "lib/tokenizer/json.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

std::string joined(const std::vector<std::string>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), std::string(),
                         [](std::string all, const std::string& one) {
                           all.append(one);
                           return all;
                         });
}

// Returns the byte of a token like "<0x0A>", or nothing for any other token.
std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto value = number_in<unsigned>(std::string_view(token).substr(3, 2), 16);
  return value ? std::optional(static_cast<char>(*value)) : std::nullopt;
}

}  // namespace

Decoder::Decoder(const nlohmann::json& decoder) {
  if (!decoder.is_null()) add(decoder);
}

void Decoder::add(const nlohmann::json& step) {
  const auto type = type_of(step);
  if (type == "Sequence") {
    for (const auto& inner : step.at("decoders")) add(inner);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(ByteLevel{});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse{});
  } else if (type == "Metaspace") {
    const auto& scheme = member(step, "prepend_scheme");
    const bool prepends =
        scheme.is_null() ? flag_in(step, "add_prefix_space", true) : scheme != "never";
    require(!text_in(step, "replacement").empty(),
            "the decoder Metaspace has an empty replacement for spaces");
    steps_.emplace_back(Metaspace{text_in(step, "replacement"), prepends});
  } else if (type == "Replace") {
    steps_.emplace_back(Replace{pattern_in(step.at("pattern")), text_in(step, "content")});
  } else if (type == "Strip") {
    const auto content = text_in(step, "content");
    require(!content.empty() && utf8_length(content[0]) == content.size(),
            "the decoder Strip has the content \"{}\", which is not one character", content);
    steps_.emplace_back(
        Strip{content, step.at("start").get<std::size_t>(), step.at("stop").get<std::size_t>()});
  } else {
    fail(
        "the decoder {} is not supported. The supported decoders are ByteLevel, ByteFallback, "
        "Fuse, Metaspace, Replace, Strip and Sequence",
        type);
  }
}

std::string Decoder::operator()(std::vector<std::string> tokens) const {
  if (steps_.empty()) {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) text.append(i > 0 ? " " : "").append(tokens[i]);
    return text;
  }
  for (const auto& step : steps_) std::visit([&](const auto& s) { apply(s, tokens); }, step);
  return joined(tokens);
}

void Decoder::apply(const ByteLevel&, std::vector<std::string>& tokens) {
  std::string bytes;
  for (const auto& token : tokens) bytes.append(bytes_of_token(token).value_or(token));
  tokens = {with_replacements(bytes)};
}

void Decoder::apply(const ByteFallback&, std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto write = [&] {
    if (bytes.empty()) return;
    if (well_formed_bytes(bytes) == bytes.size()) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes.push_back(*byte);
      continue;
    }
    write();
    out.push_back(std::move(token));
  }
  write();
  tokens = std::move(out);
}

void Decoder::apply(const Fuse&, std::vector<std::string>& tokens) {
  tokens = {joined(tokens)};
}

void Decoder::apply(const Metaspace& m, std::vector<std::string>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string out;
    std::string_view rest = tokens[i];
    while (!rest.empty()) {
      if (rest.starts_with(m.replacement)) {
        if (i > 0 || !m.drops_first) out.push_back(' ');
        rest.remove_prefix(m.replacement.size());
      } else {
        const std::size_t n = utf8_length(rest[0]);
        out.append(rest.substr(0, n));
        rest.remove_prefix(n);
      }
    }
    tokens[i] = std::move(out);
  }
}

void Decoder::apply(const Replace& r, std::vector<std::string>& tokens) {
  for (auto& token : tokens) token = replaced(token, r.pattern.regex, r.by);
}

void Decoder::apply(const Strip& s, std::vector<std::string>& tokens) {
  for (auto& token : tokens) {
    std::string_view rest = token;
    for (std::size_t i = 0; i < s.start && rest.starts_with(s.content); ++i)
      rest.remove_prefix(s.content.size());
    for (std::size_t i = 0; i < s.stop && rest.ends_with(s.content); ++i)
      rest.remove_suffix(s.content.size());
    token = std::string(rest);
  }
}

}  // namespace trireme
