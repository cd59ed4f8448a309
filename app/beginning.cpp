#include "app/beginning.hpp"

#include <system_error>

#include "lib/base/log.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/run_lock.hpp"

namespace trireme {

bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run) {
  std::error_code e;
  return std::filesystem::weakly_canonical(checkpoint, e).parent_path() ==
         std::filesystem::weakly_canonical(run / "checkpoints", e);
}

Beginning beginning_of(const Beginning& asked, const std::filesystem::path& run,
                       const JobStart& start) {
  const auto there = read_outcome(run);
  if (there && start.follows(there->start)) {
    const bool saved = !list_checkpoints(run / "checkpoints").empty();
    return {Existing::restart, saved ? "latest" : asked.restart};
  }
  if (asked.existing == Existing::overwrite || asked.restart.empty()) return asked;
  const bool here =
      asked.restart == "latest" || is_checkpoint_of(find_checkpoint(asked.restart), run);
  return {here ? Existing::restart : Existing::refuse, asked.restart};
}

void leave_if(const Communicator& world, bool asked_here) {
  double asked = asked_here;
  world.all_reduce_max({&asked, 1});
  if (asked > 0)
    throw StoppedEarly("a signal asked for a stop before training began: nothing was changed");
}

void enter(std::optional<RunDirectory>& directory, const std::filesystem::path& run,
           Existing existing, const SignalWatch& signals) {
  try {
    directory.emplace(run, existing, [&] { return signals.stop(); });
  } catch (const StoppedWaiting& e) {
    log_warning("{}", e.what());
  }
}

}  // namespace trireme
