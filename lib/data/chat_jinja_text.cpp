#include "lib/data/chat_jinja_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace trireme {

namespace {

using SystemPlace = ChatTemplate::SystemPlace;

// A text as Jinja's literal.
std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\'' || c == '\\')
      out.append({'\\', c});
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "'";
}

// A text with the tokenizer's tokens where it names them.
std::string expression(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto at = std::min(text.find("{bos}"), text.find("{eos}"));
    if (at > 0) parts.push_back(literal(text.substr(0, at)));
    if (at == std::string_view::npos) break;
    parts.emplace_back(text[at + 1] == 'b' ? "bos_token" : "eos_token");
    text.remove_prefix(at + 5);
  }
  return parts.empty() ? "''" : fmt::format("{}", fmt::join(parts, " + "));
}

class JinjaWriter {
 public:
  explicit JinjaWriter(const ChatTemplate& t) : template_(t) {}

  std::string write() {
    content();
    begin();
    statement("for message in turns");
    turns();
    statement("endfor");
    end();
    return std::move(text_);
  }

 private:
  void statement(std::string_view s) { text_ += fmt::format("{{%- {} -%}}\n", s); }
  void print(std::string_view e) { text_ += fmt::format("{{{{- {} -}}}}\n", e); }
  void refuse(std::string_view when, std::string_view message) {
    statement(fmt::format("if {}", when));
    print(fmt::format("raise_exception({})", literal(message)));
    statement("endif");
  }
  bool has_system() const { return template_.turns.contains("system"); }
  bool system_in_user() const { return template_.system == SystemPlace::first_user_turn; }
  std::string trimmed(std::string_view e) const {
    return template_.trimmed ? fmt::format("({} | trim)", e) : std::string(e);
  }
  // A turn around the expression of its content.
  std::string turn(const ChatTemplate::Turn& t, std::string_view e) const {
    return fmt::format("{} + {} + {}", expression(t.before), e, expression(t.after));
  }

  // A content is a text or a list of texts.
  void content() {
    statement("macro content_of(message)");
    statement(
        "set content = message['content'] if message['content'] is string else "
        "message['content'] | map(attribute='text') | join");
    if (!template_.refused.empty())
      refuse(
          literal(template_.refused) + " in content",
          fmt::format("a message holds {}, which this template does not write", template_.refused));
    print("content");
    statement("endmacro");
  }

  void begin() {
    statement("set turns = messages");
    if (has_system()) {
      const auto& otherwise = template_.default_system;
      statement("set system = " + (otherwise.empty() ? "none" : literal(otherwise)));
      statement("if messages and messages[0]['role'] == 'system'");
      statement("set system = content_of(messages[0])");
      statement("set turns = messages[1:]");
      statement("endif");
    }
    refuse("not turns", "the conversation has no turn");
    print(expression(template_.begin));
    if (!has_system() || system_in_user()) return;
    statement("if system is not none");
    print(turn(template_.turns.at("system"), trimmed("system")));
    statement("endif");
  }

  void turns() {
    statement("set content = content_of(message)");
    if (has_system() && system_in_user()) system_before_user();
    if (template_.alternating)
      refuse("(message['role'] == 'user') != (loop.index0 % 2 == 0)",
             "user and assistant take turns, the user begins");
    statement("set content = " + trimmed("content"));
    std::vector<std::string> roles;
    for (const auto& [role, t] : template_.turns) {
      if (role == "system" && system_in_user()) continue;
      statement(
          fmt::format("{} message['role'] == {}", roles.empty() ? "if" : "elif", literal(role)));
      if (role == "assistant")
        answer(t);
      else
        print(turn(t, "content"));
      roles.push_back(role);
    }
    statement("else");
    print(fmt::format(
        "raise_exception({})",
        literal(fmt::format("a message is of another role than {}", fmt::join(roles, ", ")))));
    statement("endif");
  }

  void system_before_user() {
    const auto& t = template_.turns.at("system");
    statement("if loop.first and system is not none");
    refuse("message['role'] != 'user'", "the system's text stands in the first user's turn");
    statement(fmt::format("set content = {} + system + {} + content", literal(t.before),
                          literal(t.after)));
    statement("endif");
  }

  void answer(const ChatTemplate::Turn& t) {
    if (template_.before_last.empty()) return print(turn(t, "content"));
    statement("if loop.last");
    print(fmt::format("{} + {} + content.lstrip('\\n') + {}", expression(t.before),
                      expression(template_.before_last), expression(t.after)));
    statement("else");
    print(turn(t, "content"));
    statement("endif");
  }

  void end() {
    statement("if add_generation_prompt");
    print(expression(begin_of_answer(template_)));
    if (!template_.end.empty()) {
      statement("else");
      print(expression(template_.end));
    }
    statement("endif");
  }

  const ChatTemplate& template_;
  std::string text_;
};

}  // namespace

std::string jinja_text(const ChatTemplate& t) {
  return JinjaWriter(t).write();
}

}  // namespace trireme
