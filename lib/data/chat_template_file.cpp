#include "lib/data/chat_template_file.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/keys/rows.hpp"
#include "lib/keys/table_reader.hpp"

namespace trireme {

namespace {

// What stands above all sections.
KeySection conversation() {
  using C = ChatTemplate;
  const auto row = rows_of<C>();
  return {"",
          "A conversation.",
          false,
          {row("begin", &C::begin, "before the first turn").literally(),
           row("end", &C::end, "behind the last turn").literally(),
           row("special", &C::special, "texts that are one token each").literally(),
           row("default_system", &C::default_system, "where a conversation has none").literally(),
           row("trim", &C::trimmed, "contents without white space at both ends")}};
}

// The section of a role.
KeySection turn(const std::string& role) {
  using T = ChatTemplate::Turn;
  const auto reach = [role](auto& all, std::size_t) -> auto& {
    return all.turns.at(role);
  };
  const RowMaker<ChatTemplate, decltype(reach)> row(reach);
  KeySection section{role,
                     "A turn.",
                     false,
                     {row("before", &T::before, "its content").literally(),
                      row("after", &T::after, "its content").literally()}};
  if (role == "system")
    section.keys.push_back(KeyRow("in_first_user", ValueKind::flag,
                                  rows_of<ChatTemplate>().access(
                                      [](const ChatTemplate& t) {
                                        return t.system ==
                                               ChatTemplate::SystemPlace::first_user_turn;
                                      },
                                      [](ChatTemplate& t, const KeyValue& v) {
                                        t.system = std::get<bool>(v)
                                                       ? ChatTemplate::SystemPlace::first_user_turn
                                                       : ChatTemplate::SystemPlace::own_turn;
                                      }),
                                  "its content stands in the first turn of a user"));
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
    if (std::ranges::any_of(template_.special, &std::string::empty))
      report(given("special"), "special is a list of texts that are not empty");
    throw_problems();
    return std::move(template_);
  }

 private:
  // Any name is a role's.
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

}  // namespace

ChatTemplate read_chat_template(const std::string& file) {
  Reader reader(file);
  reader.read(read_text(file));
  auto t = reader.finish();
  require(t.turns.contains("assistant") && t.turns.contains("user"),
          "{}: a chat template has a section [user] and a section [assistant]", file);
  require(t.default_system.empty() || t.turns.contains("system"),
          "{}: default_system needs a section [system]", file);
  require(
      !t.turns["assistant"].after.empty(),
      "{}: [assistant] has no text behind its content, so that no end of a turn could be learnt: "
      "give it \"after\"",
      file);
  return t;
}

}  // namespace trireme
