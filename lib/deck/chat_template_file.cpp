#include "lib/deck/chat_template_file.hpp"

#include <algorithm>
#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/toml_reader.hpp"

namespace trireme {

namespace {

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  template <class T>
  T as(const RawEntry& entry, std::string_view wanted) const {
    const auto* const value = std::get_if<T>(&entry.value.data);
    require(value, "{}{} is {}, not {}", at(entry.place), entry.key, spoken(entry.value), wanted);
    return *value;
  }
  std::string text(const RawEntry& entry) const { return as<std::string>(entry, "a text"); }

  [[noreturn]] void unknown(const RawEntry& entry, std::string_view keys) const {
    fail("{}{} is no key of a chat template: here are {}", at(entry.place), entry.key, keys);
  }
  std::string at(SourceLocation place) const {
    return fmt::format("{}:{}:{}: ", file_, place.line, place.column);
  }

 private:
  const std::string& file_;
};

void read_conversation(ChatTemplate& t, const RawSection& section, const Reader& reader) {
  for (const auto& entry : section.entries) {
    if (entry.key == "begin") {
      t.begin = reader.text(entry);
    } else if (entry.key == "end") {
      t.end = reader.text(entry);
    } else if (entry.key == "default_system") {
      t.default_system = reader.text(entry);
    } else if (entry.key == "trim") {
      t.trimmed = reader.as<bool>(entry, "true or false");
    } else if (entry.key == "special") {
      for (const auto& value : reader.as<std::vector<RawValue>>(entry, "a list of texts")) {
        const auto* const text = std::get_if<std::string>(&value.data);
        require(text && !text->empty(), "{}special is a list of texts that are not empty",
                reader.at(value.place));
        t.special.push_back(*text);
      }
    } else {
      reader.unknown(entry, "begin, end, special, default_system and trim");
    }
  }
}

void read_turn(ChatTemplate& t, const RawSection& section, const Reader& reader) {
  auto& turn = t.turns[section.name];
  for (const auto& entry : section.entries) {
    if (entry.key == "before") {
      turn.before = reader.text(entry);
    } else if (entry.key == "after") {
      turn.after = reader.text(entry);
    } else if (entry.key == "in_first_user" && section.name == "system") {
      t.system = reader.as<bool>(entry, "true or false")
                     ? ChatTemplate::SystemPlace::first_user_turn
                     : ChatTemplate::SystemPlace::own_turn;
    } else {
      reader.unknown(
          entry, section.name == "system" ? "before, after and in_first_user" : "before and after");
    }
  }
}

}  // namespace

ChatTemplate read_chat_template(const std::string& file) {
  const auto text = read_text(file);
  const Reader reader(file);
  ChatTemplate t;
  t.name = file;
  for (const auto& section : read_toml(text, file)) {
    if (section.name.empty())
      read_conversation(t, section, reader);
    else
      read_turn(t, section, reader);
  }
  require(t.turns.contains("assistant") && t.turns.contains("user"),
          "{}: a chat template has a section [user] and a section [assistant]", file);
  require(t.default_system.empty() || t.turns.contains("system"),
          "{}: default_system needs a section [system]", file);
  const auto& answer = t.turns["assistant"];
  require(
      !answer.after.empty(),
      "{}: [assistant] has no text behind its content, so that no end of a turn could be learnt: "
      "give it \"after\"",
      file);
  return t;
}

}  // namespace trireme
