#include "lib/chat/chat_jinja_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

namespace trireme {

namespace {

// Returns a Jinja literal for a text.
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

// Returns a Jinja expression for a text. The names in `others` are replaced by Jinja expressions.
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

const std::map<std::string_view, std::string_view> answered{{"{id}", "message['tool_call_id']"}};

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
  bool system_in_user() const { return template_.system != SystemPlace::own_turn; }
  bool has_tools(ToolsPlace place) const {
    return !template_.tools.each.empty() && template_.tools.place == place;
  }
  bool one_or_the_other() const {
    return !template_.calls.each.empty() &&
           template_.calls.message != MessageHas::content_and_calls;
  }
  // Returns true if conversations may contain calls or tool results. These do not alternate with
  // the user's messages.
  bool has_calls() const {
    return !template_.calls.each.empty() || template_.turns.contains("tool");
  }
  std::string trimmed(std::string_view e) const {
    return template_.trimmed ? fmt::format("({} | trim)", e) : std::string(e);
  }
  // Returns the expression of a content in the form that its turn requires.
  static std::string content_in(const ChatTemplate::Turn& t, std::string_view e) {
    if (t.json) return "(whole | tojson)";
    return t.trimmed ? fmt::format("({} | trim)", e) : std::string(e);
  }
  // Returns the expression of a turn. `e` is the expression of its content.
  static std::string turn(const ChatTemplate::Turn& t, std::string_view e) {
    return fmt::format("{} + {} + {}", before(t), content_in(t, e), after(t));
  }
  static std::string before(const ChatTemplate::Turn& t) { return expression(t.before, answered); }
  static std::string after(const ChatTemplate::Turn& t) { return expression(t.after, answered); }

  // Writes a macro that returns a message's content. A content is a text or a list of texts.
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
    places();
    print(expression(template_.begin));
    if (has_system() && !system_in_user()) system_turn();
  }

  // Writes variables that later statements use: the number of messages that have alternated so far,
  // and the index of the last user message.
  void places() {
    const bool last =
        template_.system == SystemPlace::last_user || has_tools(ToolsPlace::before_last_user);
    if (last || (template_.alternating && has_calls()))
      statement("set place = namespace(said=0, last_user=-1)");
    if (last) {
      statement("for message in turns");
      statement("if message['role'] == 'user'");
      statement("set place.last_user = loop.index0");
      statement("endif");
      statement("endfor");
      refuse("place.last_user < 0 and (tools or system is not none)", "there is no user's turn");
    }
    if (has_tools(ToolsPlace::first_user))
      refuse("tools and turns[0]['role'] != 'user'", "tools stand in the first user's turn");
  }

  void system_turn() {
    const auto& t = template_.turns.at("system");
    const auto& with_tools = template_.tools.system_before;
    const bool tools_here = has_tools(ToolsPlace::system), always = template_.system_always;
    if (!always) statement(tools_here ? "if system is not none or tools" : "if system is not none");
    if (!tools_here && !always && with_tools.empty()) {
      print(turn(t, trimmed("system")));
    } else {
      if (!with_tools.empty()) {
        statement("if tools");
        print(expression(with_tools));
        statement("else");
      }
      print(expression(t.before));
      if (!with_tools.empty()) statement("endif");
      statement("if system is not none");
      print(content_in(t, trimmed("system")));
      statement("endif");
      if (tools_here) tools();
      print(expression(t.after));
    }
    if (!always) statement("endif");
  }

  void tools(std::string_view where = "tools") {
    const auto& t = template_.tools;
    statement(fmt::format("if {}", where));
    if (t.place == ToolsPlace::system) {
      statement("if system is not none");
      print(expression(t.apart));
      statement("endif");
    }
    print(expression(t.before));
    statement("for tool in tools");
    if (!t.between.empty()) {
      statement("if not loop.first");
      print(expression(t.between));
      statement("endif");
    }
    const auto json = t.indent > 0 ? fmt::format("(tool | tojson(indent={}))", t.indent)
                                   : std::string("(tool | tojson)");
    print(expression(t.each, {{"{tool}", json}}));
    statement("endfor");
    print(expression(t.after));
    statement("endif");
  }

  void turns() {
    statement("set content = content_of(message)");
    if (has_system() && system_in_user()) system_before_user();
    if (template_.alternating) alternating();
    refuse(template_.calls.each.empty()
               ? "message['tool_calls']"
               : "message['tool_calls'] and message['role'] != 'assistant'",
           "this template does not write a message's tool_calls");
    if (one_or_the_other()) content_or_calls();
    if (std::ranges::any_of(template_.turns, [](auto& t) { return t.second.json; }))
      statement("set whole = content");
    statement("set content = " + trimmed("content"));
    std::vector<std::string> roles;
    for (const auto& [role, t] : template_.turns) {
      if (role == "system" && (system_in_user() || template_.system_always)) continue;
      statement(
          fmt::format("{} message['role'] == {}", roles.empty() ? "if" : "elif", literal(role)));
      if (writes_id(t.before) || writes_id(t.after))
        require_id("message['tool_call_id']", "a message has no tool_call_id");
      group(t.group_before, role, "loop.first or turns[loop.index0 - 1]");
      if (role == "user" && has_tools(ToolsPlace::before_last_user))
        tools("tools and loop.index0 == place.last_user");
      if (role == "assistant")
        answer(t);
      else if (role == "user" && has_tools(ToolsPlace::first_user))
        first_user(t);
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

  void alternating() {
    const auto* const text = "user and assistant take turns, the user begins";
    if (!has_calls()) return refuse("(message['role'] == 'user') != (loop.index0 % 2 == 0)", text);
    statement("if message['role'] != 'tool' and not message['tool_calls']");
    refuse("message['role'] != ('user' if place.said % 2 == 0 else 'assistant')", text);
    statement("set place.said = place.said + 1");
    statement("endif");
  }

  void content_or_calls() {
    refuse("message['tool_calls'] and content.strip()",
           "a message has tool_calls and a content: this template writes one or the other");
    if (template_.calls.message == MessageHas::content_or_one_call)
      refuse("message['tool_calls'] and message['tool_calls'] | length != 1",
             "this template writes one call a message");
    statement("set content = '' if message['tool_calls'] else content");
  }

  void require_id(std::string_view id, std::string_view message) {
    const auto length = template_.calls.call_id_length;
    refuse(fmt::format("not {}", id), message);
    if (length > 0)
      refuse(fmt::format("{} | length != {}", id, length),
             fmt::format("this template writes ids of {} characters", length));
  }

  void system_before_user() {
    const auto& t = template_.turns.at("system");
    if (template_.system == SystemPlace::first_user) {
      statement("if loop.first and system is not none");
      refuse("message['role'] != 'user'", "the system's text stands in the first user's turn");
    } else {
      statement("if loop.index0 == place.last_user and system is not none");
    }
    statement(fmt::format("set content = {} + {} + {} + content", literal(t.before),
                          content_in(t, "system"), literal(t.after)));
    statement("endif");
  }

  // Tools are written between the text before a content and the content.
  void first_user(const ChatTemplate::Turn& t) {
    print(before(t));
    tools("tools and loop.first");
    print(content_in(t, "content"));
    print(after(t));
  }

  void group(const std::string& text, const std::string& role, std::string_view border) {
    if (text.empty()) return;
    statement(fmt::format("if {}['role'] != {}", border, literal(role)));
    print(expression(text));
    statement("endif");
  }

  void answer(const ChatTemplate::Turn& t) {
    const auto before_calls = begin_of_calls(template_);
    const bool other = one_or_the_other() && before_calls != t.before;
    if (other) {
      statement("if message['tool_calls']");
      print(expression(before_calls));
      statement("else");
    }
    print(before(t));
    if (other) statement("endif");
    const auto content = content_in(t, "content");
    if (template_.before_last.empty()) {
      print(content);
    } else {
      statement("if loop.last and turns | selectattr('role', 'equalto', 'user') | list");
      print(expression(template_.before_last) + " + " + content + ".lstrip('\\n')");
      statement("else");
      print(content);
      statement("endif");
    }
    if (!template_.calls.each.empty()) calls();
    print(after(t));
  }

  void calls() {
    const auto& t = template_.calls;
    if (!t.before.empty()) {
      statement("if message['tool_calls']");
      if (!t.between.empty()) {
        statement("if content");
        print(expression(t.between));
        statement("endif");
      }
      print(expression(t.before));
      statement("endif");
    }
    statement("for call in message['tool_calls'] or []");
    if (writes_id(t.each)) {
      statement("set id = call['id']");
      require_id("id", "a call has no id");
    }
    statement("set call = call['function'] if call['function'] is mapping else call");
    statement("set arguments = call['arguments']");
    if (!t.between.empty()) {
      statement(t.before.empty() ? "if content or not loop.first" : "if not loop.first");
      print(expression(t.between));
      statement("endif");
    }
    print(expression(
        t.each, {{"{name}", "call['name']"},
                 {"{id}", "id"},
                 {"{arguments}", "(arguments if arguments is string else arguments | tojson)"}}));
    statement("endfor");
    if (!t.after.empty()) {
      statement("if message['tool_calls']");
      print(expression(t.after));
      statement("endif");
    }
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
