// trireme deck [KEY], trireme version
#include "lib/deck/deck.hpp"
#include <fmt/format.h>

#include "app/commands.hpp"
#include "kernels/cuda/device.hpp"
#include "lib/base/version.hpp"

namespace trireme {

void add_deck(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("deck", "print a commented deck, or what a key means");
  auto key = std::make_shared<std::string>();
  command->add_option("key", *key, "section.key, key or section");
  command->callback([&chosen, key] {
    chosen = [key] {
      fmt::print("{}", key->empty() ? deck_template() : describe_key(*key));
      return 0;
    };
  });
}

void add_version(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("version", "what this program is and was built with");
  command->callback([&chosen] {
    chosen = [] {
      std::string why;
      const int devices = cuda_devices(&why);
      fmt::print("trireme {}{}\n{}\nCUDA devices: {}{}\n", version(),
                 commit().empty() ? "" : fmt::format(", commit {}", commit()), cuda_libraries(),
                 devices, devices ? "" : " (" + why + ")");
      return 0;
    };
  });
}

}  // namespace trireme
