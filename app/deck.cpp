// trireme deck [KEY]
#include "lib/deck/deck.hpp"

#include "app/commands.hpp"
#include "app/output.hpp"

namespace trireme {

void add_deck(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("deck", "print a commented deck, or what a key means");
  auto key = std::make_shared<std::string>();
  command->add_option("key", *key, "section.key, key or section");
  command->callback([&chosen, key] {
    chosen = [key] {
      print(key->empty() ? deck_template() : describe_key(*key));
      return 0;
    };
  });
}

}  // namespace trireme
