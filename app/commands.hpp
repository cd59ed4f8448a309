#pragma once
// The subcommands of trireme. Each adds itself to the command line; when it is the one that was
// given, its callback puts the work into `chosen`, which main then runs for the exit code.
#include <CLI/CLI.hpp>
#include <functional>

namespace trireme {

void add_train(CLI::App&, std::function<int()>& chosen);
void add_check(CLI::App&, std::function<int()>& chosen);
void add_plan(CLI::App&, std::function<int()>& chosen);
void add_deck(CLI::App&, std::function<int()>& chosen);
void add_tokenize(CLI::App&, std::function<int()>& chosen);
void add_evaluate(CLI::App&, std::function<int()>& chosen);
void add_generate(CLI::App&, std::function<int()>& chosen);
void add_inspect(CLI::App&, std::function<int()>& chosen);
void add_version(CLI::App&, std::function<int()>& chosen);

// For a `train` that only has something to say of its arguments: ranks that were started together
// must end together, also where the others go on to train. `say` returns the exit code.
int end_train(const std::function<int()>& say);

}  // namespace trireme
