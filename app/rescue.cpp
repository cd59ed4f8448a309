// The `trireme rescue RUN_DIR` command: makes a checkpoint from the memory copies of a run whose
// processes died.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "app/run_start.hpp"
#include "app/run_support.hpp"
#include "lib/base/background_work.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/node_copies.hpp"
#include "lib/io/rescue_choice.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/shard_reader.hpp"
#include "lib/launch/nodes.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Calls work(i) for each index on several threads. Throws an Error of one of the calls.
void on_threads(const std::vector<std::size_t>& indices,
                const std::function<void(std::size_t)>& work) {
  constexpr std::size_t most = 8;
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (auto i = next++; i < indices.size(); i = next++) work(indices[i]);
  };
  const auto cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<BackgroundWork>> threads(std::min({indices.size(), cores, most}));
  std::exception_ptr error;
  for (auto& thread : threads) {
    thread = std::make_unique<BackgroundWork>();
    try {
      thread->start(run);
    } catch (const Error&) {  // the other threads do its share
      if (&thread == &threads.front()) run();
    }
  }
  for (auto& thread : threads) {
    try {
      thread->join();
    } catch (const Error&) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// Names the new checkpoint in outcome.json. The other fields still describe the start that died.
void record_rescue(const RunDirectory& directory, std::int64_t step, const fs::path& checkpoint) {
  try {
    auto outcome = directory.read_outcome();
    if (!outcome) return;
    if (outcome->status == "running") outcome->step = step;  // a failed run has the step of its end
    outcome->last_good_checkpoint = checkpoint.string();
    directory.write_outcome(*outcome);
  } catch (const Error& e) {  // the checkpoint is published
    log_warning("outcome.json does not name {}: {}", checkpoint.string(), e.what());
  }
}

// Brings the files of one memory copy into the directory of a new checkpoint. All functions except
// the constructor are collective.
class Rescue {
 public:
  Rescue(const Communicator& world, const NodeCopies& own, Manifest manifest)
      : world_(world),
        own_(own),
        manifest_(std::move(manifest)),
        present_(own.present(manifest_)),
        wrote_(manifest_.files.size(), '0'),
        writer_(manifest_.files.size(), -1) {}

  // Assigns each file that is not written yet to a process that has a copy of it. If no process has
  // a copy of a file, returns the name of the file. Otherwise returns an empty text.
  std::string find_lost() {
    assign();
    for (std::size_t i = 0; i < writer_.size(); ++i)
      if (writer_[i] < 0 && assigned_[i] < 0) return manifest_.files[i].name;
    return {};
  }

  // Writes all files except the tokenizer to `partial`. If a copy turns out to be damaged, another
  // process writes the file. Returns the result of the last find_lost().
  std::string write(const fs::path& partial) {
    for (auto name = find_lost();; name = find_lost()) {
      if (!name.empty()) return name;
      if (std::ranges::find(writer_, -1) == writer_.end()) return {};
      write_assigned(partial);
    }
  }

  // Publishes the checkpoint after write(). `directory` is the run directory, on rank 0.
  void publish(const fs::path& partial, const RunDirectory* directory) {
    std::string mine;
    together(world_, Pace::slow, [&] {  // HDF5 is not thread-safe
      for (std::size_t i = 0; i < wrote_.size(); ++i)
        if (wrote_[i] == '1' && !is_tokenizer(i))
          mine += to_text(record_of_shard(partial / manifest_.files[i].name)) + "\n";
    });
    for (std::size_t i = 0; i < writer_.size(); ++i)
      if (is_tokenizer(i)) world_.broadcast(manifest_.meta.tokenizer, writer_[i]);
    const auto all = world_.all_gather(mine);
    at_root(world_, Pace::slow, [&] {
      std::vector<FileRecord> shards;
      for (const auto& texts : all) {
        std::istringstream lines(texts);
        for (std::string line; std::getline(lines, line);)
          shards.push_back(parse_file_record(line));
      }
      std::ranges::sort(shards, {}, &FileRecord::rank);
      const auto checkpoint =
          trireme::publish(directory->checkpoints(), manifest_.meta, std::move(shards),
                           [&] { directory->require_lock(); });
      record_rescue(*directory, step(), checkpoint);
    });
  }

  std::int64_t step() const { return manifest_.meta.step; }

 private:
  bool is_tokenizer(std::size_t i) const { return manifest_.files[i].name == tokenizer_name; }

  // Decides which process writes each file that is not written yet.
  void assign() {
    std::vector<std::int64_t> bytes;
    for (std::size_t i = 0; i < writer_.size(); ++i)
      bytes.push_back(writer_[i] < 0 ? manifest_.files[i].size : 0);
    assigned_ = writers_of(world_.all_gather(present_), bytes);
  }

  // Returns an empty text, or why this process cannot write the file.
  std::string write_one(std::size_t i, const fs::path& partial) {
    const auto& file = manifest_.files[i];
    if (!is_tokenizer(i)) return own_.copy(file, step(), partial / file.name);
    auto bytes = own_.bytes_of(file, step());
    if (!bytes) return fmt::format("no copy of {} on this node matches its hash", file.name);
    manifest_.meta.tokenizer = std::move(*bytes);
    return {};
  }

  void write_assigned(const fs::path& partial) {
    std::string problems;
    together(world_, Pace::slow, [&] {
      std::vector<std::size_t> mine;
      for (std::size_t i = 0; i < writer_.size(); ++i)
        if (writer_[i] < 0 && assigned_[i] == world_.rank()) mine.push_back(i);
      std::mutex mutex;
      on_threads(mine, [&](std::size_t i) {
        const auto why = write_one(i, partial);
        const std::lock_guard lock(mutex);
        (why.empty() ? wrote_[i] = '1' : present_[i] = '0');
        if (!why.empty()) problems += (problems.empty() ? "" : "\n") + why;
      });
    });
    const auto wrote = world_.all_gather(wrote_);
    for (std::size_t r = 0; r < wrote.size(); ++r)
      for (std::size_t i = 0; i < writer_.size(); ++i)
        if (wrote[r][i] == '1') writer_[i] = static_cast<int>(r);
    for (const auto& text : world_.all_gather(problems))
      if (!text.empty() && world_.rank() == 0) log_warning("{}", text);
  }

  const Communicator& world_;
  const NodeCopies& own_;
  Manifest manifest_;
  std::string present_;        // '1' for each file of which this process has a copy
  std::string wrote_;          // '1' for each file that this process has written
  std::vector<int> writer_;    // of each file: the process that has written it, or -1
  std::vector<int> assigned_;  // of each file: the process that should write it, or -1
};

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
std::string rescue_copy(const Communicator& world, const RunDirectory* directory, Rescue& copy) {
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
    Rescue copy(world, own, parse_manifest(record, copy_record_name));
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
