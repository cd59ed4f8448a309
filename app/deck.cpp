// The `trireme deck [KEY]` command.
#include "lib/deck/deck.hpp"

#include "app/commands.hpp"
#include "app/output.hpp"

namespace trireme {

void add_deck(CLI::App& app, std::function<int()>& chosen) {
  auto* command =
      app.add_subcommand("deck",
                         "Print a template deck with all keys explained, or describe one key or "
                         "section");
  auto key = std::make_shared<std::string>();
  command->add_option("key", *key,
                      "Key or section to describe, such as train.steps, steps or train");
  command->callback([&chosen, key] {
    chosen = [key] {
      print(key->empty() ? deck_template() : describe_key(*key));
      return 0;
    };
  });
}

}  // namespace trireme
