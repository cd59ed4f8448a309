#include "lib/chat/chat_template_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/keys/commented.hpp"
#include "lib/keys/rows.hpp"
#include "lib/keys/table_reader.hpp"

namespace trireme {

namespace {

// Returns the keys above all sections.
KeySection conversation() {
  using C = ChatTemplate;
  const auto row = rows_of<C>();
  return {"",
          "The whole conversation.",
          false,
          {row("begin", &C::begin, "Text before the first turn").literally(),
           row("end", &C::end, "Text after the last turn").literally(),
           row("special", &C::special,
               "Texts of this template that become one token each, in addition to the special "
               "tokens of the tokenizer")
               .literally(),
           row("plain", &C::plain,
               "Texts of this template that look like special tokens, but are plain text if the "
               "tokenizer has no such token")
               .literally(),
           row("default_system", &C::default_system,
               "Content of the system turn in conversations that have none")
               .literally(),
           row("trim", &C::trimmed, "Whether to remove white space at both ends of all contents"),
           row("alternating", &C::alternating,
               "Whether user and assistant must take turns, beginning with the user. Other "
               "conversations are refused"),
           row("refused", &C::refused, "Text that must not occur in any content").literally()}};
}

// Returns a flag that selects `place` for the system text. Flags of this kind exclude each other.
KeyRow stands_in(const char* name, SystemPlace place, const char* meaning) {
  return {
      name, ValueKind::flag,
      rows_of<ChatTemplate>().access([place](const ChatTemplate& t) { return t.system == place; },
                                     [place](ChatTemplate& t, const KeyValue& v) {
                                       if (std::get<bool>(v))
                                         t.system = place;
                                       else if (t.system == place)
                                         t.system = SystemPlace::own_turn;
                                     }),
      meaning};
}

// Returns the keys of the system's section. `place` is the place of the tools, which the meaning of
// one key depends on.
std::vector<KeyRow> keys_of_system(ToolsPlace place) {
  using C = ChatTemplate;
  using Tools = C::Tools;
  const auto row = rows_of<C>();
  const auto tools = rows_of(&C::tools);
  return {
      stands_in("in_first_user", SystemPlace::first_user,
                "Whether the system text is written before the content of the first user turn, "
                "instead of in a system turn"),
      stands_in("in_last_user", SystemPlace::last_user,
                "Whether the system text is written before the content of the last user turn, "
                "instead of in a system turn"),
      row("always", &C::system_always,
          "Whether each conversation begins with a system turn, even if there is no system text"),
      tools("before_with_tools", &Tools::system_before,
            "Text that replaces `before` in conversations with tools")
          .literally(),
      tools("tools_in", &Tools::place,
            "Place of the tools. system: after the system content. first_user: before the content "
            "of the first user turn. before_last_user: before the last user turn"),
      tools("tools_before", &Tools::before,
            place == ToolsPlace::system ? "Text after the system content and before the tools"
                                        : "Text before the tools")
          .literally(),
      tools("tool", &Tools::each,
            "Text for each tool, where {tool} stands for the JSON of the tool")
          .literally(),
      tools("tools_between", &Tools::between, "Text between two tools").literally(),
      tools("tools_indent", &Tools::indent,
            "Indentation of tool JSON, in spaces per level. 0 writes each tool on one line")
          .in(0, 16),
      tools("tools_after", &Tools::after, "Text after the tools").literally(),
      tools("tools_apart", &Tools::apart,
            "Text between the system content, if there is one, and tools_before")
          .literally()};
}

std::vector<KeyRow> keys_of_assistant() {
  using C = ChatTemplate;
  using Calls = C::Calls;
  const auto calls = rows_of(&C::calls);
  return {
      rows_of<C>()("before_last", &C::before_last,
                   "Text after `before` in an assistant turn that ends the conversation. Line "
                   "breaks at the start of its content are removed")
          .literally(),
      calls("message_has", &Calls::message,
            "What one message may contain. content_and_calls: content, tool calls or both. "
            "content_or_calls: either content or tool calls. content_or_one_call: either content "
            "or one tool call"),
      calls("before_calls", &Calls::before, "Text before the first tool call of a message")
          .literally(),
      calls("call", &Calls::each,
            "Text for each tool call, where {name}, {arguments} and {id} stand for the name of the "
            "tool, the JSON of its arguments and the id of the call")
          .literally(),
      calls("between_calls", &Calls::between,
            "Text between two tool calls, and between the content and the first tool call")
          .literally(),
      calls("after_calls", &Calls::after, "Text after the last tool call of a message").literally(),
      calls("call_id_length", &Calls::call_id_length,
            "Number of characters that each call id ({id}) must have. 0 allows any length")
          .in(0, 1000)};
}

// Returns the section of a role.
KeySection turn(const std::string& role, ToolsPlace place = ToolsPlace::system) {
  using T = ChatTemplate::Turn;
  const auto reach = [role](auto& all, std::size_t) -> auto& {
    return all.turns.at(role);
  };
  const RowMaker<ChatTemplate, decltype(reach)> row(reach);
  KeySection section{
      role,
      "The turns of one role.",
      false,
      {row("before", &T::before, "Text before the content of each turn of this role").literally(),
       row("after", &T::after, "Text after the content of each turn of this role").literally(),
       row("group_before", &T::group_before,
           "Text before the first of consecutive turns of this role")
           .literally(),
       row("group_after", &T::group_after, "Text after the last of consecutive turns of this role")
           .literally()}};
  section.keys.push_back(row(
      "trim", &T::trimmed, "Whether to remove white space at both ends of contents of this role"));
  const auto add = [&](const std::vector<KeyRow>& keys) {
    section.keys.insert(section.keys.end(), keys.begin(), keys.end());
  };
  if (role == "system")
    add(keys_of_system(place));
  else if (role == "assistant")
    add(keys_of_assistant());
  else if (role != "user")
    add({row(
        "as_json_string", &T::json,
        "Whether to write contents of this role as JSON strings, without removing white space")});
  return section;
}

class Reader final : public TableReader {
 public:
  explicit Reader(const std::string& file) : TableReader(sections_, "a chat template", file) {
    sections_.push_back(conversation());
    template_.name = file;
  }
  ChatTemplate finish() {
    fill(template_);
    for (const auto& [name, texts] :
         {std::pair{"special", &template_.special}, std::pair{"plain", &template_.plain}})
      if (std::ranges::any_of(*texts, &std::string::empty))
        report(given(name), fmt::format("{} must be a list of texts that are not empty", name));
    const auto* const last = given("system.in_last_user");
    if (is_true(last) && is_true(given("system.in_first_user")))
      report(last, "in_first_user and in_last_user cannot both be true");
    throw_problems();
    return std::move(template_);
  }

 private:
  static bool is_true(const Given* given) { return given && given->value == KeyValue(true); }

  // Any section name is the name of a role.
  const KeySection* section_of(const RawSection& raw) override {
    if (raw.name.empty()) return &sections_.front();
    if (!find_section(sections_, raw.name)) {
      sections_.push_back(turn(raw.name));
      sections_ = table_of(std::move(sections_));
    }
    template_.turns[raw.name];
    return TableReader::section_of(raw);
  }

  std::vector<KeySection> sections_;
  ChatTemplate template_;
};

// Returns true if a key has its default and is not one of the few keys that most templates need.
bool is_left_out(const Key& key, std::string_view section, const ChatTemplate& t) {
  constexpr std::string_view usual[] = {"before", "after", "before_last", "in_first_user"};
  if (section.empty() || std::ranges::find(usual, key.name) != std::end(usual)) return false;
  ChatTemplate blank;
  blank.turns[std::string(section)];
  return key.access.get(t, 0) == key.access.get(blank, 0);
}

std::string lines_of(const KeySection& section, const ChatTemplate& t) {
  std::vector<CommentedLine> lines;
  for (const auto& key : section.keys)
    if (!is_left_out(key, section.name, t))
      lines.push_back(
          {fmt::format("{} = {}", key.name, to_toml(key.access.get(t, 0), TextIs::literal)),
           key.meaning});
  return in_columns(lines);
}

bool is_bare_key(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_' || c == '-');
  });
}

// Returns the roles in the order of conversations, and then all other roles.
std::vector<std::string> roles_of(const ChatTemplate& t) {
  std::vector<std::string> roles;
  for (const auto* role : {"system", "user", "assistant"})
    if (t.turns.contains(role)) roles.emplace_back(role);
  for (const auto& [role, turn] : t.turns)
    if (std::ranges::find(roles, role) == roles.end()) roles.push_back(role);
  return roles;
}

}  // namespace

ChatTemplate parse_chat_template(std::string_view text, const std::string& source) {
  require(
      text.size() <= longest_chat_template,
      "{} has {} bytes, but a chat template has at most {}: move long texts to the conversations",
      source, text.size(), longest_chat_template);
  Reader reader(source);
  reader.read(text);
  auto t = reader.finish();
  require(t.special.size() + t.plain.size() <= most_chat_tokens,
          "{}: \"special\" and \"plain\" name {} texts, but a chat template has at most {}: remove "
          "those that it does not write",
          source, t.special.size() + t.plain.size(), most_chat_tokens);
  require(t.turns.contains("assistant") && t.turns.contains("user"),
          "{}: a chat template must have a section [user] and a section [assistant]", source);
  require(t.default_system.empty() || t.turns.contains("system"),
          "{}: default_system needs a section [system]", source);
  const auto excluded = [&](const char* key, bool given) {
    require(!given || t.system == SystemPlace::own_turn,
            "{}: \"{}\" cannot be combined with \"in_first_user\" or \"in_last_user\": remove one "
            "of them",
            source, key);
  };
  excluded("tool", !t.tools.each.empty() && t.tools.place == ToolsPlace::system);
  excluded("before_with_tools", !t.tools.system_before.empty());
  excluded("always", t.system_always);
  for (const auto& [key, text, name] :
       {std::tuple{"tool", &t.tools.each, "{tool}"}, std::tuple{"call", &t.calls.each, "{name}"},
        std::tuple{"call", &t.calls.each, "{arguments}"}})
    require(text->empty() || text->find(name) != std::string::npos, "{}: \"{}\" must contain {}",
            source, key, name);
  require(!t.turns["assistant"].after.empty(),
          "{}: [assistant] has no text after its content, so a model could not learn where a turn "
          "ends: set \"after\"",
          source);
  return t;
}

ChatTemplate read_chat_template(const std::string& file) {
  return parse_chat_template(read_text(file), file);
}

std::string chat_template_text(const ChatTemplate& t) {
  auto text = lines_of(conversation(), t);
  for (const auto& role : roles_of(t))
    text += fmt::format("\n[{}]\n{}",
                        is_bare_key(role) ? role : to_toml(KeyValue(role), TextIs::literal),
                        lines_of(turn(role, t.tools.place), t));
  return text;
}

}  // namespace trireme
