#pragma once
// A start of `train`: its arguments, where it writes and what it begins with.
#include <filesystem>
#include <optional>
#include <string>

#include "app/restart.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/signals.hpp"

namespace trireme {

struct TrainArguments {
  DeckArguments deck;
  std::string restart, run_dir, time_limit;
  bool overwrite = false, or_start = false, print_run_dir = false;
  OtherModel other_model = OtherModel::refused;
};

JobStart start_of(const TrainArguments&);
std::filesystem::path run_of(const TrainArguments&, const Deck&);
// Rank 0's path for all ranks, whatever working directories they were started in.
std::filesystem::path run_path(const Communicator& world, const std::filesystem::path& given);
// Without control characters escaped, as job scripts read it. The exit code.
int print_run_dir(const TrainArguments&);

struct StartMode {
  Existing existing = Existing::refuse;  // what an existing run directory means to it
  std::string restart;                   // "latest", a checkpoint, or empty: none
};

// As `asked` for, whatever is in `run`; but a later start of a batch job, whose earlier one came to
// train there, goes on from what the run has saved since. Before there is a checkpoint of it, it
// begins once more as asked, in its own directory. Error when a checkpoint cannot be found, and
// where it would overwrite checkpoints that may be of an earlier start.
StartMode start_mode_of(const StartMode& asked, const std::filesystem::path& run, const JobStart&);

// Error where `latest` is asked of a directory that holds no run, unless --or-start is given.
void require_run_to_restart(const TrainArguments&, const std::filesystem::path& run);

// On all ranks: one of them was asked to stop before training began, and nothing was changed.
struct StoppedEarly : SharedError {
  using SharedError::SharedError;
};
// Collective. StoppedEarly where a rank was asked.
void stop_if_asked(const Communicator& world, bool asked_here);
// Opens and locks the run directory; not where a stop is asked for while another's lock is waited
// for.
void lock_directory(std::optional<RunDirectory>&, const std::filesystem::path& run, Existing,
                    const SignalWatch&);

// Is it one of the checkpoints of the run directory `run`, where it is a link too?
bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace trireme
