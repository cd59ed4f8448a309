#pragma once
// Writes conversations as text with a chat template, and finds the parts on which the model is
// trained.
//
// A template with {% generation %} says itself which parts of an answer are trained on. For other
// templates, private-use characters mark the contents of messages. An answer then begins where the
// prompt for it ends, which is rendered with add_generation_prompt. It ends with the last special
// token of its turn.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/chat_template.hpp"
#include "lib/chat/chat_text.hpp"
#include "lib/chat/conversation.hpp"
#include "lib/chat/jinja.hpp"
#include "lib/chat/private_characters.hpp"

namespace trireme {

// Keys under which messages contain the thoughts that precede an answer.
inline constexpr std::array<std::string_view, 3> thought_keys{"reasoning_content", "thinking",
                                                              "reasoning"};

// Selects the messages of a conversation on which the model is trained, by their roles.
struct ChatTargets {
  std::vector<std::string> roles{"assistant"};
  bool only_last = false;  // only the last message with one of these roles
  // Whether the special token that ends a message is a target, too. Not used for answers that
  // {% generation %} marks.
  bool end_of_turn = true;
};

// Writer of conversations with one chat template.
class ChatWriter {
 public:
  // `variables` sets further variables of the template for all conversations. Throws Error under
  // the conditions of Jinja's constructor.
  ChatWriter(ChatTemplate, const Tokenizer&, ChatTargets = {},
             OrderedJson variables = OrderedJson::object());

  // Writes a conversation. The model is trained only on messages from index `learnt_from` on.
  // Throws Error if the template refuses the conversation or does not write its tool calls or
  // tools, or if the position of an answer in the text is ambiguous. The caller adds the file and
  // line to the error. Several threads may call the functions at once.
  ChatText write(const Conversation&, std::size_t learnt_from = 0) const;
  // Writes a conversation and the text with which the template begins an answer. `targets` is
  // empty. Throws Error if the conversation is empty or ends with an assistant message.
  ChatText question(const Conversation&) const;

  // Returns the text that ends an answer: a special token, or else plain text. It is empty if the
  // template writes nothing after an answer.
  const std::string& end_of_answer() const { return end_of_answer_; }
  const ChatTargets& targets() const { return targets_; }
  // Returns the template in the form that token files store.
  StoredChat stored() const { return {template_.jinja, end_of_answer_, variables_}; }
  // Returns true if the template reads the variable, or the key of a message. If a template reads
  // one of thought_keys, it gets the thoughts under this key, whichever key the message uses.
  bool reads(std::string_view key) const;
  // Returns the special tokens of the tokenizer that occur in the template.
  std::vector<std::string> tokens() const;

 private:
  friend class RenderedChat;
  // Returns the conversation with the roles, keys and variables of the template.
  Conversation adapted(Conversation) const;
  bool finds_parts() const;
  std::string found_end_of_answer() const;

  ChatTemplate template_;
  ChatTargets targets_;
  OrderedJson token_variables_, variables_;
  LongestText special_;  // the tokenizer's special tokens, and those that its files name
  LongestText masked_;   // those of special_ that are plain text in messages
  Jinja jinja_;
  bool reads_parts_ = false;  // whether contents are lists of {"type": "text", "text": ..}
  std::string end_of_answer_;
};

}  // namespace trireme
