#pragma once
// A tokenizer whose ids can be told from the text, and a conversation for it.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/chat/chat_writer.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// An id for a byte, one for a run of n line ends, 300 + n, and one for each special text; these are
// found where they are marked alone.
class ToyTokenizer final : public Tokenizer {
 public:
  explicit ToyTokenizer(std::vector<std::string> special,
                        std::map<std::string, std::string> files = {})
      : special_(std::move(special)), files_(std::move(files)) {}
  using Tokenizer::encode;
  void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const override {
    for (std::size_t i = 0; i < text.size();) {
      const auto lines = std::min(text.find_first_not_of('\n', i), text.size()) - i;
      ids.push_back(lines > 0 ? 300 + static_cast<std::int32_t>(lines)
                              : static_cast<unsigned char>(text[i]));
      i += std::max<std::size_t>(lines, 1);
    }
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const auto id : ids)
      text += id >= 1000  ? special_[static_cast<std::size_t>(id - 1000)]
              : id >= 300 ? std::string(static_cast<std::size_t>(id - 300), '\n')
                          : std::string(1, static_cast<char>(id));
    return text;
  }
  std::int32_t vocab() const override { return 1100; }
  std::optional<std::int32_t> separator() const override { return 0; }
  const TokenizerSpec& spec() const override { return spec_; }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const auto at = std::ranges::find(special_, token);
    if (at == special_.end()) return std::nullopt;
    return 1000 + static_cast<std::int32_t>(at - special_.begin());
  }
  std::vector<std::string> special_tokens() const override { return special_; }
  std::optional<std::string> file(std::string_view name) const override {
    const auto at = files_.find(std::string(name));
    return at == files_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::vector<std::string> special_;
  std::map<std::string, std::string> files_;
  TokenizerSpec spec_{TokenizerKind::bytes, {}};
};

// Of all templates that are known by name.
inline const std::vector<std::string> chat_tokens{"<s>",
                                                  "</s>",
                                                  "<|im_start|>",
                                                  "<|im_end|>",
                                                  "<think>",
                                                  "</think>",
                                                  "<|eot_id|>",
                                                  "<|end_header_id|>",
                                                  "<|start_header_id|>",
                                                  "<start_of_turn>",
                                                  "<end_of_turn>",
                                                  "[INST]",
                                                  "[/INST]",
                                                  "[AVAILABLE_TOOLS]",
                                                  "[/AVAILABLE_TOOLS]",
                                                  "[TOOL_CALLS]",
                                                  "[TOOL_RESULTS]",
                                                  "[/TOOL_RESULTS]"};
// The writer of a template, which tests of one program share.
inline const ChatWriter& chat_named(const std::string& name) {
  static const ToyTokenizer tokenizer(chat_tokens);
  static std::map<std::string, std::unique_ptr<ChatWriter>> all;
  auto& writer = all[name];
  if (!writer) writer = std::make_unique<ChatWriter>(chat_template_named(name), tokenizer);
  return *writer;
}

inline Conversation talk_of(std::vector<Message> messages) {
  Conversation c;
  c.messages = std::move(messages);
  return c;
}
inline const Conversation short_talk = talk_of({{"user", "Hi"}, {"assistant", "Yo"}});

// What is learnt, piece by piece.
inline std::vector<std::string> learnt_of(const ChatText& chat) {
  std::vector<std::string> all;
  for (const auto& [begin, end] : chat.targets) all.push_back(chat.text.substr(begin, end - begin));
  return all;
}

}  // namespace trireme
