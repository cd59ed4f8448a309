#pragma once
// The subcommands of trireme. Each function below adds one subcommand to the command-line parser.
// If the user calls this subcommand, the parser sets `chosen` to a function that runs it. main()
// then calls `chosen`, which returns the exit code.
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
void add_samples(CLI::App&, std::function<int()>& chosen);
void add_rescue(CLI::App&, std::function<int()>& chosen);
void add_average(CLI::App&, std::function<int()>& chosen);
void add_export(CLI::App&, std::function<int()>& chosen);
void add_import(CLI::App&, std::function<int()>& chosen);
void add_report(CLI::App&, std::function<int()>& chosen);
void add_version(CLI::App&, std::function<int()>& chosen);
void add_manual(CLI::App&, std::function<int()>& chosen);

// Ends a `train` command that only prints help or reports invalid arguments, and returns the exit
// code that `print` returns. Initializes MPI before it calls `print`, so that all ranks of a
// launcher end together, even if the arguments of some ranks are valid.
int end_train(const std::function<int()>& print);

}  // namespace trireme
