#include "lib/data/chat_jinja_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
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

// A text, with what Jinja calls them in the place of some names.
std::string expression(std::string_view text,
                       std::map<std::string_view, std::string_view> others = {}) {
  others.insert({{"{bos}", "bos_token"}, {"{eos}", "eos_token"}});
  std::vector<std::string_view> names;
  for (const auto& [name, other] : others) names.push_back(name);
  std::vector<std::string> parts;
  for (const auto& part : parts_of(text, names))
    parts.push_back(part.stands_for_other ? std::string(others.at(part.text)) : literal(part.text));
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
    const auto* const given =
        template_.calls.each.empty() ? "message['content']" : "(message['content'] or '')";
    statement(fmt::format(
        "set content = {0} if {0} is string else {0} | map(attribute='text') | join", given));
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
    if (template_.tools.each.empty()) refuse("tools", "this template does not write tools");
    print(expression(template_.begin));
    if (!has_system() || system_in_user()) return;
    const auto& t = template_.turns.at("system");
    if (template_.tools.each.empty()) {
      statement("if system is not none");
      print(turn(t, trimmed("system")));
    } else {
      statement("if system is not none or tools");
      print(expression(t.before));
      statement("if system is not none");
      print(trimmed("system"));
      statement("endif");
      tools();
      print(expression(t.after));
    }
    statement("endif");
  }

  void tools() {
    const auto& t = template_.tools;
    statement("if tools");
    statement("if system is not none");
    print(expression(t.apart));
    statement("endif");
    print(expression(t.before));
    statement("for tool in tools");
    print(expression(t.each, {{"{tool}", "(tool | tojson)"}}));
    statement("endfor");
    print(expression(t.after));
    statement("endif");
  }

  void turns() {
    statement("set content = content_of(message)");
    if (has_system() && system_in_user()) system_before_user();
    if (template_.alternating)
      refuse("(message['role'] == 'user') != (loop.index0 % 2 == 0)",
             "user and assistant take turns, the user begins");
    refuse(template_.calls.each.empty()
               ? "message['tool_calls']"
               : "message['tool_calls'] and message['role'] != 'assistant'",
           "this template does not write a message's tool_calls");
    statement("set content = " + trimmed("content"));
    std::vector<std::string> roles;
    for (const auto& [role, t] : template_.turns) {
      if (role == "system" && system_in_user()) continue;
      statement(
          fmt::format("{} message['role'] == {}", roles.empty() ? "if" : "elif", literal(role)));
      group(t.group_before, role, "loop.first or turns[loop.index0 - 1]");
      if (role == "assistant")
        answer(t);
      else
        print(turn(t, "content"));
      group(t.group_after, role, "loop.last or turns[loop.index0 + 1]");
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

  void group(const std::string& text, const std::string& role, std::string_view border) {
    if (text.empty()) return;
    statement(fmt::format("if {}['role'] != {}", border, literal(role)));
    print(expression(text));
    statement("endif");
  }

  void answer(const ChatTemplate::Turn& t) {
    print(expression(t.before));
    if (template_.before_last.empty()) {
      print("content");
    } else {
      statement("if loop.last and turns | selectattr('role', 'equalto', 'user') | list");
      print(expression(template_.before_last) + " + content.lstrip('\\n')");
      statement("else");
      print("content");
      statement("endif");
    }
    if (!template_.calls.each.empty()) calls();
    print(expression(t.after));
  }

  void calls() {
    statement("for call in message['tool_calls'] or []");
    statement("set call = call['function'] if call['function'] is mapping else call");
    statement("set arguments = call['arguments']");
    if (!template_.calls.between.empty()) {
      statement("if content or not loop.first");
      print(expression(template_.calls.between));
      statement("endif");
    }
    print(expression(
        template_.calls.each,
        {{"{name}", "call['name']"},
         {"{arguments}", "(arguments if arguments is string else arguments | tojson)"}}));
    statement("endfor");
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
