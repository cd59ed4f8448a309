#include "app/hints.hpp"

#include <fmt/format.h>

#include <string_view>

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

}  // namespace trireme
