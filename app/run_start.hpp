#pragma once
// The start of `train`: its arguments, its run directory, and whether it begins or continues a run.
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

// Returns the batch job and the command line of this start.
JobStart start_of(const TrainArguments&);
// Returns the run directory given by the arguments or the deck.
std::filesystem::path run_of(const TrainArguments&, const Deck&);
// Returns rank 0's absolute path for `given` on all ranks, because other ranks may have other
// working directories. Collective.
std::filesystem::path run_path(const Communicator& world, const std::filesystem::path& given);
// Prints the run directory for use in job scripts, without escaping control characters. Returns the
// exit code.
int print_run_dir(const TrainArguments&);

// Mode in which a start of `train` begins.
struct StartMode {
  // Handling of an existing run directory.
  Existing existing = Existing::refuse;
  // "latest" or the path of a checkpoint. Empty if the run does not restart.
  std::string restart;
};

// Returns the mode of a start. Usually this is `asked`, the mode that the user requested. If an
// earlier start of the same batch job has already trained in `run`, this start continues from the
// newest checkpoint saved since. If no checkpoint has been saved since, it begins again as
// requested, in the same directory. Throws Error if a checkpoint cannot be found, or if the start
// would overwrite checkpoints that may be from an earlier start.
StartMode start_mode_of(const StartMode& asked, const std::filesystem::path& run, const JobStart&);

// Throws Error if the user requests "latest" without --or-start and `run` contains no run.
void require_run_to_restart(const TrainArguments&, const std::filesystem::path& run);

// Thrown on all ranks if any rank was asked to stop before training began. No file was changed.
struct StoppedEarly : SharedError {
  using SharedError::SharedError;
};
// Throws StoppedEarly on all ranks if `asked_here` is true on any rank. Collective.
void stop_if_asked(const Communicator& world, bool asked_here);
// Opens and locks the run directory. If a stop is requested while another process holds the lock,
// logs a warning and leaves the optional RunDirectory empty.
void lock_directory(std::optional<RunDirectory>&, const std::filesystem::path& run, Existing,
                    const SignalWatch&);

// Returns true if `checkpoint` is one of the checkpoints of the run directory `run`. `checkpoint`
// may be a link.
bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace trireme
