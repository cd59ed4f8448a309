#pragma once
// Renders one conversation for a ChatWriter.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/chat_writer.hpp"

namespace trireme {

class RenderedChat {
 public:
  // The conversation must have been adapted to the template, and the writer must outlive this
  // object.
  RenderedChat(const ChatWriter&, const Conversation&, const ChatTargets&);

  // Implement the functions of ChatWriter with these names.
  ChatText write(std::size_t learnt_from);
  ChatText question() const;

 private:
  // The marks around the contents of messages.
  enum class Marks : std::uint8_t { none, ends, both };

  std::vector<OrderedJson> marked_messages(Marks) const;
  std::string without_marks(std::string_view) const;
  JinjaResult render(std::vector<OrderedJson>, bool generation_prompt) const;
  void render_all();
  // Renders the first `count` messages, with the same marks as text_, followed by the messages
  // `more`. Returns nullopt if the template refuses them.
  std::optional<std::string> part(std::size_t count, bool generation_prompt,
                                  const std::vector<OrderedJson>& more = {}) const;

  std::optional<std::string> before_probe(std::size_t message) const;

  bool is_learnt(std::size_t message, std::size_t learnt_from) const;
  // Return the position in a text with marks at which a message's data (its content, thoughts and
  // calls) begins or ends. Return npos if the position is unknown.
  std::size_t data_begin(std::size_t message) const;
  // `alone` is the text of the conversation up to this message, if it is known.
  std::size_t data_end(std::string_view text, std::size_t message,
                       std::string_view alone = {}) const;
  // Returns false if the content is empty or ends with a thought. Templates remove such a thought,
  // and would treat a mark after it as content.
  bool has_content_marks(std::size_t message) const;
  bool is_left_out(std::size_t message) const;
  bool is_thought_left_out(std::size_t message) const;
  // Return the begin and the end of the part of a message on which the model is trained.
  std::size_t turn_begin(std::size_t message);
  std::size_t turn_end(std::size_t message, std::size_t begin);
  // Throws Error if a part of the text contains another message.
  void require_own(std::size_t message, TextSpan) const;
  // Returns what the template marks with {% generation %} in messages that are trained on.
  std::vector<TextSpan> marked_targets(std::size_t learnt_from) const;
  std::vector<TextSpan> targets(std::size_t learnt_from);

  // Returns the length of the longest common prefix that does not divide a token.
  std::size_t common(std::string_view a, std::string_view b) const;
  ChatText finished(std::vector<TextSpan> targets) const;
  // Throws Error unless the text is the one that the template writes for the original conversation.
  void require_restored(const ChatText&, bool generation_prompt) const;

  const ChatWriter& writer_;
  const ChatTargets& targets_;
  Conversation chat_;  // with the names of special tokens replaced
  const Conversation original_;
  PrivateCharacters characters_;
  Marks marks_ = Marks::none;
  std::string text_;  // of the whole conversation, with marks
  // For each role, the text between the data of a message with this role and an answer to it.
  std::map<std::string, std::string> prompts_;
  // For each role, the text from the token that ends a message to the data of a next message with
  // this role, and the length of the token. Long conversations need few renderings because of these
  // texts.
  struct Tail {
    std::string text;
    std::size_t token;
  };
  std::map<std::string, Tail> tails_;
};

}  // namespace trireme
