#pragma once
// What a start of `train` begins with.
#include <filesystem>
#include <optional>
#include <string>

#include "lib/comm/agree.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/signals.hpp"

namespace trireme {

struct Beginning {
  Existing existing = Existing::refuse;  // what an existing run directory means to it
  std::string restart;                   // "latest", a checkpoint, or empty: none
};

// As `asked` for, whatever is in `run`; but a later start of a batch job, whose earlier one came to
// train there, goes on from what the run has saved since. Before there is a checkpoint of it, it
// begins once more as asked, in its own directory. Error when a checkpoint cannot be found.
Beginning beginning_of(const Beginning& asked, const std::filesystem::path& run, const JobStart&);

// On all ranks: one of them was asked to stop before training began, and nothing was changed.
struct StoppedEarly : SharedError {
  using SharedError::SharedError;
};
// Collective. StoppedEarly where a rank was asked.
void leave_if(const Communicator& world, bool asked_here);
// Opens and locks the run directory; not where a stop is asked for while another's lock is waited
// for.
void enter(std::optional<RunDirectory>&, const std::filesystem::path& run, Existing,
           const SignalWatch&);

// Is it one of the checkpoints of the run directory `run`?
bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace trireme
