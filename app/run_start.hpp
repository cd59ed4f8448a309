#pragma once
// The start of `train`: reads its arguments, determines its run directory, and decides whether it
// begins or continues a run.
#include <filesystem>
#include <optional>
#include <string>

#include "app/restart.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/signals.hpp"

namespace trireme {

// The arguments of `train`.
struct TrainArguments {
  DeckArguments deck;
  std::string restart, run_dir, time_limit;
  bool overwrite = false, or_start = false, print_run_dir = false;
  OtherModel other_model = OtherModel::refused;
};

// Returns the batch job to which this start belongs, and its command line.
JobStart start_of(const TrainArguments&);
// Returns the run directory that the arguments or the deck determine.
std::filesystem::path run_of(const TrainArguments&, const Deck&);
// Converts the path `given` to an absolute path on rank 0, and returns this path on all ranks.
// Other ranks may have other working directories. Collective.
std::filesystem::path run_path(const Communicator& world, const std::filesystem::path& given);
// Prints the run directory, and returns the exit code. Does not escape control characters, because
// job scripts use the output as a path.
int print_run_dir(const TrainArguments&);

// How a start of `train` treats an existing run, and from which checkpoint it restarts.
struct StartMode {
  // Handling of an existing run directory.
  Existing existing = Existing::refuse;
  // "latest" or the path of a checkpoint. Empty if the run does not restart.
  std::string restart;
};

// Returns the mode of a start. `asked` is the mode that the user requested. If no earlier start of
// the same batch job has trained in `run`, the start does what the user requested. If an earlier
// start has trained and there is a checkpoint in `run`, the start continues from the newest
// checkpoint. If an earlier start has trained but there is no checkpoint, the start begins again as
// the user requested, in the same directory. Throws Error if a checkpoint cannot be found, or if
// the start would overwrite checkpoints that may be from an earlier start.
StartMode start_mode_of(const StartMode& asked, const std::filesystem::path& run, const JobStart&);

// Returns rank 0's mode on all ranks. The other ranks' argument is ignored. Collective.
StartMode mode_of_root(const Communicator& world, const StartMode& decided);

// Throws Error if the user requests "latest" without --or-start and `run` contains no run.
void require_run_to_restart(const TrainArguments&, const std::filesystem::path& run);

// Thrown on all ranks if a signal asks any rank to stop before training begins. No file was
// changed.
struct StoppedEarly : SharedError {
  using SharedError::SharedError;
};
// Throws StoppedEarly on all ranks if `asked_here` is true on at least one rank. Collective.
void stop_if_asked(const Communicator& world, bool asked_here);
// Opens and locks the run directory. If a signal asks the process to stop while it waits for the
// lock of another process, logs a warning and leaves the optional RunDirectory empty.
void lock_directory(std::optional<RunDirectory>&, const std::filesystem::path& run, Existing,
                    const SignalWatch&);

// Returns true if `checkpoint` is one of the checkpoints of the run directory `run`. `checkpoint`
// may be a link.
bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace trireme
