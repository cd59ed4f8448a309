#pragma once
// What a run directory tells about its run, as the value that the page of `trireme report` draws.
// Nothing in the directory is changed or locked: the run may still go on.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

// Error only when there is no such directory. Whatever is missing or cannot be read is null or
// empty, with a line in "problems":
//   name, path, status, reason, step, total_steps, checkpoint, machine, quiet (seconds since the
//   newest row), rows, tokens
//   series   loss, grad_norm, lr, tokens_per_second, held_out, of pairs margin, accuracy and both
//            held out, of routers balance, router_z, least_load, most_load: step, tokens, value,
//            thinned
//   marks    checkpoints (step, kept), restarts (step), skipped (step, why)
//   timing   timing.json's processes, oldest first
//   trace    the last step of the newest trace: file, step, left_out, bars
//   deck     effective.toml
nlohmann::ordered_json run_report(const std::filesystem::path& run);

}  // namespace trireme
