#pragma once
// The subcommands of trireme. Each adds itself to the command line; the callback of the one that
// was given sets `chosen`, which main runs and whose result is the exit code.
#include <CLI/CLI.hpp>
#include <functional>

namespace trireme {

void add_train(CLI::App&, std::function<int()>& chosen);
void add_check(CLI::App&, std::function<int()>& chosen);
void add_plan(CLI::App&, std::function<int()>& chosen);
void add_calibrate(CLI::App&, std::function<int()>& chosen);
void add_deck(CLI::App&, std::function<int()>& chosen);
void add_tokenize(CLI::App&, std::function<int()>& chosen);
void add_evaluate(CLI::App&, std::function<int()>& chosen);
void add_score(CLI::App&, std::function<int()>& chosen);
void add_generate(CLI::App&, std::function<int()>& chosen);
void add_inspect(CLI::App&, std::function<int()>& chosen);
void add_compare(CLI::App&, std::function<int()>& chosen);
void add_export(CLI::App&, std::function<int()>& chosen);
void add_import(CLI::App&, std::function<int()>& chosen);
void add_report(CLI::App&, std::function<int()>& chosen);
void add_version(CLI::App&, std::function<int()>& chosen);
void add_manual(CLI::App&, std::function<int()>& chosen);

// For a `train` that only prints help or what is wrong with its arguments: initialises MPI, so that
// ranks started by one launcher end together even if others have arguments to train with. `print`
// returns the exit code.
int end_train(const std::function<int()>& print);

}  // namespace trireme
