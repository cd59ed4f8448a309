// The `trireme rescue RUN_DIR` command: makes a checkpoint from the memory copies of a run whose
// processes died.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "app/rescued_copy.hpp"
#include "app/run_start.hpp"
#include "app/run_support.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/node_copies.hpp"
#include "lib/io/rescue_choice.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/launch/nodes.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Returns the step of the newest intact checkpoint on disk that is at least as new as `step`, or -1
// if there is none.
std::int64_t newest_on_disk(const fs::path& checkpoints, std::int64_t step) {
  auto all = list_checkpoints(checkpoints);
  for (auto info = all.rbegin(); info != all.rend() && info->step >= step; ++info) {
    const auto damage = damage_of(info->directory, Check::hashes);
    if (!damage) return info->step;
    log_warning("skipped: {}", *damage);
  }
  return -1;
}

// Prints the reason on rank 0, and returns the exit code.
int report_nothing(const Communicator& world, const std::string& reason) {
  if (world.rank() == 0) {
    say("nothing to rescue: {}\n", reason);
    flush_output();
  }
  return 0;
}

// Locks the run on rank 0, and returns the start whose memory copies may be used. Returns an empty
// start if the run has none. Collective.
CopyOwner lock_run(const Communicator& world, const fs::path& run,
                   std::optional<RunDirectory>& directory) {
  CopyOwner owner;
  at_root(world, Pace::slow, [&] {
    require(is_there(run / "checkpoints"), "{} is not a run directory", run.string());
    if (!is_there(run / copy_owner_name)) return;
    directory.emplace(run, Existing::restart);
    log_to(directory->log());
    put_back_replaced(directory->checkpoints());
    owner = read_copy_owner(run).value_or(CopyOwner{});
  });
  world.broadcast(owner.run);
  world.broadcast(owner.start);
  return owner;
}

// Removes the directory of a checkpoint that is not published. Collective.
void abandon(const Communicator& world, const RunDirectory* directory, std::int64_t step) {
  at_root(world, Pace::slow, [&] {
    try {
      directory->require_lock();
      abandon_save(directory->checkpoints(), step);
    } catch (const Error&) {  // another process's files of this name must stay
    }
  });
}

// Makes a checkpoint from a memory copy. Returns an empty text, or the name of a file of which no
// process has an intact copy. Collective.
std::string rescue_copy(const Communicator& world, const RunDirectory* directory,
                        RescuedCopy& copy) {
  auto lost = copy.find_lost();
  if (!lost.empty()) return lost;
  std::string partial;
  at_root(world, Pace::slow, [&] {
    directory->require_lock();
    partial = begin_save(directory->checkpoints(), copy.step()).string();
  });
  world.broadcast(partial);
  try {
    lost = copy.write(partial);
    if (lost.empty()) copy.publish(partial, directory);
  } catch (const SharedError&) {
    const auto error = std::current_exception();
    abandon(world, directory, copy.step());
    std::rethrow_exception(error);
  }
  if (!lost.empty()) abandon(world, directory, copy.step());
  return lost;
}

int rescue(const Communicator& world, const fs::path& given) {
  const auto run = run_path(world, given);
  std::optional<RunDirectory> locked;  // on rank 0
  const auto owner = lock_run(world, run, locked);
  const auto* const directory = locked ? &*locked : nullptr;
  if (owner.start.empty())
    return report_nothing(
        world,
        "the run keeps no memory copies (checkpoint.memory_every), or it ended by "
        "itself and removed them");

  NodeCopies own;
  std::string reason;
  together(world, Pace::slow, [&] {
    const auto root = memory_root(launch::test_node(world.rank()));
    own = NodeCopies(root, owner);
    reason = fmt::format("no memory copy of the run is in {} on {}", root.string(),
                         world.size() == 1 ? "this node" : "the nodes of the processes");
  });
  for (const auto& problems : world.all_gather(own.problems()))
    if (!problems.empty() && world.rank() == 0) log_warning("{}", problems);
  std::vector<std::vector<CopyClaim>> claims;
  for (const auto& text : world.all_gather(claims_text(own.claims())))
    claims.push_back(parse_claims(text));

  for (const auto& [claim, holder] : candidates_of(claims)) {
    std::string on_disk;
    at_root(world, Pace::slow, [&] {
      const auto step = newest_on_disk(directory->checkpoints(), claim.step);
      if (step >= 0) on_disk = std::to_string(step);
    });
    world.broadcast(on_disk);
    if (!on_disk.empty())
      return report_nothing(world,
                            fmt::format("the checkpoint of step {} on disk is as new as the newest "
                                        "memory copy, of step {}",
                                        on_disk, claim.step));
    auto record = own.record(claim);
    world.broadcast(record, holder);
    RescuedCopy copy(world, own, parse_manifest(record, copy_record_name));
    const auto lost = rescue_copy(world, directory, copy);
    if (lost.empty()) {
      if (world.rank() != 0) return 0;
      log_info("step {}: the checkpoint was rescued from memory copies", claim.step);
      say("rescued step {}\n", claim.step);
      flush_output();
      return 0;
    }
    reason = fmt::format("no process has an intact copy of {} of step {}", lost, claim.step);
    if (world.rank() == 0) log_warning("{}", reason);
  }
  return report_nothing(world, reason + ". A restart uses the newest checkpoint on disk");
}

}  // namespace

void add_rescue(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "rescue", "Make a checkpoint from the memory copies of a run whose processes died");
  auto run = std::make_shared<std::string>();
  command->add_option("run", *run, "Run directory")->required()->transform(with_environment());
  command->footer(
      "With mpiexec or srun, start one process on each node of the run that still answers. The "
      "last line of the output is `rescued step N` or `nothing to rescue: REASON`. The exit code "
      "is "
      "0 in both cases.");
  command->callback([&chosen, run] {
    chosen = [run] {
      return on_all_ranks("rescue " + *run,
                          [&](const Communicator& world) { return rescue(world, *run); });
    };
  });
}

}  // namespace trireme
