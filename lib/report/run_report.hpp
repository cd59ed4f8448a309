#pragma once
// Converts a run directory to the JSON value that the page of `trireme report` shows. Nothing in
// the directory is changed or locked, so the run may still be active.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

// Returns the contents of a run directory. Throws Error only if the directory does not exist. A
// missing or unreadable value is null or empty, and "problems" contains a message about it.
//   name, path, status, reason, step, total_steps, checkpoint, machine, quiet (seconds since the
//   newest row), rows, tokens, trained_tokens
//   series   loss, grad_norm, lr, tokens_per_second, held_out; for pairs margin, accuracy,
//            held_out_margin, held_out_accuracy; for routers balance, router_z, least_load,
//            most_load; for [[validation]] sets held_out[NAME]. Each has step, tokens, value,
//            thinned
//   marks    checkpoints (step, kept), restarts (step), skipped (step, why),
//            stalled (step, why), slow (step, why), rollbacks (step, why), phases (step, why),
//            batches (step, why)
//   timing   the processes in timing.json, oldest first
//   trace    the last step of the newest trace: file, step, left_out, bars
//   deck     text of effective.toml
nlohmann::ordered_json run_report(const std::filesystem::path& run);

}  // namespace trireme
