#include "app/hints.hpp"

#include <fmt/format.h>

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
      text += fmt::format("hint: {}; a deck's keys are written section.key=VALUE, without dashes\n",
                          hint_of(*familiar));
      continue;
    }
    for (const auto& path : deck_key_paths())
      if (path == name || path.substr(path.find('.') + 1) == name)
        text += fmt::format("hint: write {}=VALUE, without dashes\n", path);
  }
  return text;
}

std::string hint_of_command(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const auto*) { return true; }))
    names.push_back(command->get_name());
  const auto near = word.starts_with('-') ? std::string() : nearest_name(word, names);
  return near.empty() ? "" : fmt::format("hint: did you mean {} {}?\n", app.get_name(), near);
}

}  // namespace trireme
