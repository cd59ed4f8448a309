#pragma once
// The subcommands of trireme. Each function adds its subcommand to the command line. The callback
// of the subcommand on the command line sets `chosen`. main() then calls `chosen`, whose result is
// the exit code.
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

// Ends a `train` command that only prints help or reports invalid arguments. `print` returns the
// exit code. MPI is initialized first, so that all ranks of one launcher end together, even if
// other ranks have valid arguments.
int end_train(const std::function<int()>& print);

}  // namespace trireme
