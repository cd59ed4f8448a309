#include "lib/chat/chat_writer.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/chat/rendered_chat.hpp"

namespace trireme {

namespace {

// Returns true if the word occurs in the text, and is not a part of a longer name.
bool has_word(std::string_view text, std::string_view word) {
  const auto continues = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if (!continues(at + word.size()) && (at == 0 || !continues(at - 1))) return true;
  return false;
}

// Returns the tokenizer's special tokens, and those that its files name.
std::vector<std::string> special_texts(const Tokenizer& tokenizer, const OrderedJson& variables) {
  auto all = tokenizer.special_tokens();
  for (const auto& [key, text] : variables.items()) {
    const auto token = text.get<std::string>();
    if (tokenizer.id_of(token) && std::ranges::find(all, token) == all.end()) all.push_back(token);
  }
  return all;
}

// Returns the tokens without pairs such as <think> and </think> that the template looks for in
// messages. They divide the content of a message, and do not end it. `named` are the tokens that
// begin and end texts, such as <s> and </s>.
std::vector<std::string> without_pairs(std::vector<std::string> tokens, const OrderedJson& named,
                                       std::string_view jinja) {
  const auto all = tokens;
  std::erase_if(tokens, [&](const std::string& token) {
    if (!token.starts_with('<') || !token.ends_with('>')) return false;
    if (std::ranges::any_of(named, [&](const auto& text) { return text == token; })) return false;
    const auto closing = token.starts_with("</") ? token : "</" + token.substr(1);
    const auto opening = "<" + closing.substr(2);
    const auto has = [&](const std::string& t) { return std::ranges::find(all, t) != all.end(); };
    const auto looked_for = [&](std::string_view before, std::string_view after) {
      return jinja.find(fmt::format("{}{}{}", before, closing, after)) != std::string_view::npos;
    };
    return has(opening) && has(closing) &&
           (looked_for("'", "' in") || looked_for("\"", "\" in") || looked_for("split('", "'") ||
            looked_for("split(\"", "\""));
  });
  return tokens;
}

// Returns the role that templates know for another name of it.
std::string usual_role(std::string role) {
  static const std::map<std::string, std::string> roles{
      {"developer", "system"}, {"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}};
  for (char& c : role) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = roles.find(role);
  return found == roles.end() ? role : found->second;
}

}  // namespace

ChatWriter::ChatWriter(ChatTemplate chat, const Tokenizer& tokenizer, ChatTargets targets,
                       OrderedJson variables)
    : template_(std::move(chat)),
      targets_(std::move(targets)),
      token_variables_(token_variables(tokenizer)),
      variables_(std::move(variables)),
      special_(special_texts(tokenizer, token_variables_)),
      masked_(without_pairs(special_.texts(), token_variables_, template_.jinja)),
      jinja_(template_.jinja, token_variables_, generation_marks()),
      reads_parts_(finds_parts()),
      end_of_answer_(found_end_of_answer()) {}

bool ChatWriter::reads(std::string_view key) const {
  const auto is_read = [&](std::string_view k) { return has_word(template_.jinja, k); };
  const bool is_thought = std::ranges::find(thought_keys, key) != thought_keys.end();
  return is_read(key) || (is_thought && std::ranges::any_of(thought_keys, is_read));
}

std::vector<std::string> ChatWriter::tokens() const {
  std::vector<std::string> used;
  for (const auto& text : special_.texts()) {
    const auto named = std::ranges::find_if(token_variables_.items(), [&](const auto& v) {
      return v.value() == text && reads(v.key());
    });
    if (named != token_variables_.items().end() || template_.jinja.find(text) != std::string::npos)
      used.push_back(text);
  }
  return used;
}

Conversation ChatWriter::adapted(Conversation c) const {
  require(!c.messages.empty() && (c.messages.size() > 1 || c.messages[0].role != "system"),
          "the conversation has no message other than a system message");
  require(c.tools.empty() || reads("tools"),
          "the conversation has \"tools\", which the chat template does not write: remove them, or "
          "choose another --template");
  for (std::size_t i = 0; i < c.messages.size(); ++i) {
    auto& m = c.messages[i];
    require(!m.has_calls() || reads("tool_calls"),
            "message {} has \"tool_calls\", which the chat template does not write: choose another "
            "--template",
            i + 1);
    if (const auto role = usual_role(m.role); !reads(m.role)) m.fields["role"] = m.role = role;
    const auto thought =
        std::ranges::find_if(thought_keys, [&](auto key) { return m.fields.contains(key); });
    if (thought == thought_keys.end()) continue;
    const auto text = m.fields.at(*thought);
    for (const auto key : thought_keys)
      if (has_word(template_.jinja, key) && !m.fields.contains(key)) m.fields[key] = text;
  }
  auto variables = variables_;
  variables.update(c.variables);
  c.variables = std::move(variables);
  return c;
}

ChatText ChatWriter::write(const Conversation& c, std::size_t learnt_from) const {
  return RenderedChat(*this, adapted(c), targets_).write(learnt_from);
}

ChatText ChatWriter::question(const Conversation& c) const {
  require(c.messages.empty() || c.messages.back().role != "assistant",
          "the conversation ends with an assistant message: end it with the message to answer");
  return RenderedChat(*this, adapted(c), targets_).question();
}

// Templates of models with pictures may write only contents that are lists.
bool ChatWriter::finds_parts() const {
  const std::string content = "Aegean";
  const auto writes = [&](OrderedJson value) {
    const std::vector<OrderedJson> messages{{{"role", "user"}, {"content", std::move(value)}}};
    return jinja_.render({messages, OrderedJson::array(), variables_}).text.find(content) !=
           std::string::npos;
  };
  return !writes(content) && writes(OrderedJson::array({{{"type", "text"}, {"text", content}}}));
}

std::string ChatWriter::found_end_of_answer() const {
  const std::string answer = "Aegean";
  const Message asked("user", "Which sea?"), answered("assistant", answer),
      system("system", "Say.");
  for (const auto& messages :
       {std::vector{asked, answered}, std::vector{system, asked, answered}}) {
    try {
      const ChatTargets targets;
      const auto chat = RenderedChat(*this, adapted({messages}), targets).write(0);
      if (chat.targets.empty()) continue;
      const auto end = chat.targets.back().end;
      const auto begin = chat.text.rfind(answer, end) + answer.size();
      if (!chat.special.empty() && chat.special.back().begin >= begin)
        for (const auto& span : chat.special)
          if (span.end == end) return chat.text.substr(span.begin, end - span.begin);
      return chat.text.substr(begin, end - begin);
    } catch (const Error&) {  // the template needs other messages
    }
  }
  return {};
}

}  // namespace trireme
