#pragma once
// Selects the weights that a command reads from a run: the best checkpoint (--best), or the
// averaged weights (--ema).
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Returns the checkpoint with the best evaluation, of those that the run still has. The deck of the
// newest checkpoint decides how evaluations are ranked (evaluate.best_by and evaluate.best_set).
// Logs a warning for each damaged checkpoint, and a warning if the best evaluation has no intact
// checkpoint. Throws Error if `run` is not a run directory, or if the run has no evaluated
// checkpoint. If `ema` (the option --ema) is false although the evaluations used averaged weights,
// logs the advice to pass --ema.
std::filesystem::path best_checkpoint(const std::filesystem::path& run, bool ema);

// Adds the option --best.
void add_best(CLI::App& command, bool& best);

// Adds the option --ema, with which a command reads averaged weights.
void add_ema(CLI::App& command, bool& ema);
WeightsRead weights_read(bool ema);

}  // namespace trireme
