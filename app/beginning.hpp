#pragma once
// What a start of `train` begins with.
#include <filesystem>
#include <string>

#include "lib/io/run_directory.hpp"

namespace trireme {

struct Beginning {
  Existing existing = Existing::refuse;  // what an existing run directory means to it
  std::string restart;                   // "latest", a checkpoint, or empty: none
};

// As `asked` for, whatever is in `run`; but a later start of a batch job, whose earlier one came to
// train there, goes on from what the run has saved since. Before there is a checkpoint of it, it
// begins once more as asked, in its own directory. Error when a checkpoint cannot be found.
Beginning beginning_of(const Beginning& asked, const std::filesystem::path& run, const JobStart&);

// Is it one of the checkpoints of the run directory `run`?
bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace trireme
