#pragma once
// The start of `train`: its arguments, its run directory, and how it begins.
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

// Returns the batch job and the command of this start.
JobStart start_of(const TrainArguments&);
// Returns the run directory that the arguments or the deck name.
std::filesystem::path run_of(const TrainArguments&, const Deck&);
// Returns rank 0's absolute path on all ranks, which may have other working directories.
// Collective.
std::filesystem::path run_path(const Communicator& world, const std::filesystem::path& given);
// Prints the run directory for job scripts, without escaping control characters. Returns the exit
// code.
int print_run_dir(const TrainArguments&);

// How a start of `train` begins.
struct StartMode {
  // How an existing run directory is treated.
  Existing existing = Existing::refuse;
  // "latest", a checkpoint, or empty if the run does not restart.
  std::string restart;
};

// Returns how a start begins. Usually this is what the user `asked` for. If an earlier start of the
// same batch job has already trained in `run`, the start continues from the newest checkpoint saved
// since. If there is none yet, it begins again as asked, in its own directory. Throws Error if a
// checkpoint cannot be found, or if the start would overwrite checkpoints that may be from an
// earlier start.
StartMode start_mode_of(const StartMode& asked, const std::filesystem::path& run, const JobStart&);

// Throws Error if "latest" is asked for, `run` contains no run, and --or-start is not given.
void require_run_to_restart(const TrainArguments&, const std::filesystem::path& run);

// Thrown on all ranks if one of them was asked to stop before training began. Nothing was changed.
struct StoppedEarly : SharedError {
  using SharedError::SharedError;
};
// Throws StoppedEarly on all ranks if `asked_here` is true on any rank. Collective.
void stop_if_asked(const Communicator& world, bool asked_here);
// Opens and locks the run directory. If a stop is requested while another process holds the lock,
// logs a warning and leaves `RunDirectory` absent.
void lock_directory(std::optional<RunDirectory>&, const std::filesystem::path& run, Existing,
                    const SignalWatch&);

// Returns true if `checkpoint` is one of the checkpoints of the run directory `run`. `checkpoint`
// may be a link.
bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace trireme
