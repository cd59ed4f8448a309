#include "app/hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "lib/base/nearest.hpp"
#include "lib/deck/familiar.hpp"
#include "lib/deck/table.hpp"

namespace trireme {

std::string hints_for(int argc, const char* const* argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (!name.starts_with("--")) continue;
    name = name.substr(2, name.find('=') - 2);
    if (const auto* familiar = find_familiar(name)) {
      text += fmt::format("hint: {}. Write deck keys as section.key=VALUE, without dashes\n",
                          hint_of(*familiar));
      continue;
    }
    for (const auto& path : deck_key_paths())
      if (path == name || path.substr(path.find('.') + 1) == name)
        text += fmt::format("hint: write {}=VALUE, without dashes\n", path);
  }
  return text;
}

std::vector<std::string> unknown_options(const CLI::App& app) {
  auto words = app.remaining(true);
  std::erase_if(words, [](const auto& word) { return !word.starts_with("-"); });
  return words;
}

std::string hints_of_options(const CLI::App& app, const std::vector<std::string>& unknown) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands())
    for (const auto* option : command->get_options())
      for (const auto& name : option->get_lnames()) names.push_back(name);
  std::string text;
  for (std::string_view word : unknown) {
    if (!word.starts_with("--")) continue;
    const auto near = nearest_name(word.substr(2, word.find('=') - 2), names);
    if (!near.empty()) text += fmt::format("hint: did you mean --{}?\n", near);
  }
  return text;
}

// Returns the number of bytes of the hyphen, dash or minus sign outside ASCII with which `word`
// begins. Returns 0 if there is none.
static std::size_t unicode_dash(std::string_view word) {
  for (const std::string_view dash : {"\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015",
                                      "\u2212", "\ufe58", "\ufe63", "\uff0d"})
    if (word.starts_with(dash)) return dash.size();
  return 0;
}

static bool takes_value(const CLI::App& command, const std::string& word) {
  const auto* const option = word.starts_with("-") ? command.get_option_no_throw(word) : nullptr;
  return option && option->get_expected_max() > 0;
}

static bool is_deck_key(std::string_view name) {
  return find_familiar(name) || std::ranges::any_of(deck_key_paths(), [&](const auto& path) {
           return path == name || path.substr(path.find('.') + 1) == name;
         });
}

std::string unicode_dash_in(const CLI::App& app, int argc, const char* const* argv) {
  const auto commands = app.get_subcommands(
      [&](const auto* c) { return argc > 1 && c->get_name() == std::string_view(argv[1]); });
  for (int i = 2; i < argc && !commands.empty(); ++i) {
    std::string_view rest = argv[i];
    bool unicode = false;
    while (!rest.empty()) {
      const auto dash = unicode_dash(rest);
      unicode = unicode || dash > 0;
      if (dash == 0 && rest[0] != '-') break;
      rest.remove_prefix(std::max<std::size_t>(dash, 1));
    }
    const auto name = rest.substr(0, rest.find('='));
    if (!unicode || name.empty() || takes_value(*commands[0], argv[i - 1])) continue;
    const auto option = fmt::format("{}{}", name.size() == 1 ? "-" : "--", name);
    if (commands[0]->get_option_no_throw(option) || is_deck_key(name))
      return fmt::format("'{}' begins with a typographic dash, not '-': type {}", argv[i], option);
  }
  return {};
}

std::string hint_of_command(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const auto*) { return true; }))
    names.push_back(command->get_name());
  const auto near = word.starts_with('-') ? std::string() : nearest_name(word, names);
  return near.empty() ? "" : fmt::format("hint: did you mean {} {}?\n", app.get_name(), near);
}

}  // namespace trireme
