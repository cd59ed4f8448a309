// The `trireme rescue RUN_DIR` command: makes a checkpoint of the memory copies of a run that died.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "app/run_start.hpp"
#include "app/run_support.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/rescue_choice.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/io/shard_reader.hpp"
#include "lib/launch/nodes.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// The copies of the run in the memory of this node.
struct OwnCopies {
  std::vector<HeldCopy> held;
  std::vector<CopyClaim> claims;
  std::map<std::int64_t, std::vector<std::string>> records;  // texts of copy.json, by step
  std::string problems;                                      // one line each
};

OwnCopies look_for_copies(int rank, const CopyOwner& owner) {
  OwnCopies own{held_copies(memory_root(launch::test_node(rank)), owner), {}, {}, {}};
  for (const auto& copy : own.held) {
    const auto path = copy.directory / copy_record_name;
    try {
      auto text = read_text(path);
      const auto manifest = parse_manifest(text, path.string());
      require(manifest.meta.run == owner.run && manifest.meta.step == copy.step,
              "{} belongs to another run or step", path.string());
      const CopyClaim claim{copy.step, hash128(text)};
      if (std::ranges::find(own.claims, claim) == own.claims.end()) own.claims.push_back(claim);
      own.records[copy.step].push_back(std::move(text));
    } catch (const Error& e) {  // another node may have an intact record
      own.problems += (own.problems.empty() ? "" : "\n") + std::string(e.what());
    }
  }
  return own;
}

// Returns, for each file of the manifest, the path of an intact copy on this node. Empty paths
// stand for files of which there is none.
std::vector<fs::path> intact_files(const OwnCopies& own, const Manifest& manifest) {
  std::vector<fs::path> paths;
  for (const auto& file : manifest.files) {
    paths.emplace_back();
    for (const auto& copy : own.held) {
      if (copy.step != manifest.meta.step || !paths.back().empty()) continue;
      if (verify_file(copy.directory, file, Check::hashes).empty())
        paths.back() = copy.directory / file.name;
    }
  }
  return paths;
}

// Copies a file whose bytes have the hash of the record. Throws Error if they do not.
void copy_checked(const fs::path& from, const FileRecord& record, const fs::path& to) {
  constexpr std::int64_t piece = 1 << 20;
  const auto source = PosixFile::open(from);
  auto target = PosixFile::create(to);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(piece, record.size)));
  Hasher hasher;
  for (std::int64_t at = 0; at < record.size; at += piece) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(piece, record.size - at)));
    source.read_at(part, at);
    hasher.update(part);
    target.write_at(part, at);
  }
  require(hasher.digest() == record.hash, "{} changed while it was read", from.string());
  target.sync();
}

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

int nothing(const Communicator& world, const std::string& reason) {
  if (world.rank() == 0) {
    say("nothing to rescue: {}\n", reason);
    flush_output();
  }
  return 0;
}

// Writes the files that this process writes, and publishes the checkpoint. Collective.
void write_checkpoint(const Communicator& world, const RunDirectory* directory, Manifest manifest,
                      const std::vector<int>& writers, const std::vector<fs::path>& intact) {
  std::string partial;
  at_root(world, Pace::slow, [&] {
    directory->require_lock();
    partial = begin_save(directory->checkpoints(), manifest.meta.step).string();
  });
  world.broadcast(partial);
  try {
    std::string mine;
    together(world, Pace::slow, [&] {
      for (std::size_t i = 0; i < writers.size(); ++i) {
        const auto& file = manifest.files[i];
        if (writers[i] != world.rank() || file.name == tokenizer_name) continue;
        const auto to = fs::path(partial) / file.name;
        copy_checked(intact[i], file, to);
        mine += to_text(read_shard(to).second) + "\n";
      }
    });
    for (std::size_t i = 0; i < writers.size(); ++i) {
      if (manifest.files[i].name != tokenizer_name) continue;
      auto& bytes = manifest.meta.tokenizer;
      together(world, Pace::slow, [&] {
        if (writers[i] == world.rank()) bytes = read_text(intact[i]);
      });
      world.broadcast(bytes, writers[i]);
    }
    const auto all = world.all_gather(mine);
    at_root(world, Pace::slow, [&] {
      std::vector<FileRecord> shards;
      for (const auto& texts : all) {
        std::istringstream lines(texts);
        for (std::string line; std::getline(lines, line);)
          shards.push_back(parse_file_record(line));
      }
      std::ranges::sort(shards, {}, &FileRecord::rank);
      publish(directory->checkpoints(), manifest.meta, std::move(shards),
              [&] { directory->require_lock(); });
    });
  } catch (const SharedError&) {
    const auto error = std::current_exception();
    at_root(world, Pace::slow, [&] {
      try {
        directory->require_lock();
        abandon_save(directory->checkpoints(), manifest.meta.step);
      } catch (const Error&) {  // another process's files of this name must stay
      }
    });
    std::rethrow_exception(error);
  }
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

int rescue(const Communicator& world, const fs::path& given) {
  const auto run = run_path(world, given);
  std::optional<RunDirectory> directory;  // on rank 0
  const auto owner = lock_run(world, run, directory);
  if (owner.start.empty())
    return nothing(world,
                   "the run keeps no memory copies (checkpoint.memory_every), or it ended "
                   "by itself and removed them");

  OwnCopies own;
  together(world, Pace::slow, [&] { own = look_for_copies(world.rank(), owner); });
  std::vector<std::vector<CopyClaim>> claims;
  for (const auto& text : world.all_gather(claims_text(own.claims)))
    claims.push_back(parse_claims(text));
  for (const auto& problems : world.all_gather(own.problems))
    if (!problems.empty() && world.rank() == 0) log_warning("{}", problems);

  std::string reason = fmt::format("no memory copy of the run is in {} on {}",
                                   memory_root(launch::test_node(world.rank())).string(),
                                   world.size() == 1 ? "this node" : "the nodes of the processes");
  for (const auto& [copy, holder] : candidates_of(claims)) {
    auto on_disk = std::to_string(-1);
    at_root(world, Pace::slow,
            [&] { on_disk = std::to_string(newest_on_disk(directory->checkpoints(), copy.step)); });
    world.broadcast(on_disk);
    if (on_disk != "-1")
      return nothing(world, fmt::format("the checkpoint of step {} on disk is as new as the newest "
                                        "memory copy, of step {}",
                                        on_disk, copy.step));
    std::string text;
    if (world.rank() == holder)
      for (const auto& one : own.records[copy.step])
        if (hash128(one) == copy.record) text = one;
    world.broadcast(text, holder);
    Manifest manifest;
    std::vector<fs::path> intact;
    std::string has;
    together(world, Pace::slow, [&] {
      manifest = parse_manifest(text, copy_record_name);
      intact = intact_files(own, manifest);
      for (const auto& path : intact) has += path.empty() ? '0' : '1';
    });
    std::vector<std::int64_t> bytes;
    for (const auto& file : manifest.files) bytes.push_back(file.size);
    const auto writers = writers_of(world.all_gather(has), bytes);
    if (const auto lost = std::ranges::find(writers, -1); lost != writers.end()) {
      reason = fmt::format("no process has an intact copy of {} of step {}",
                           manifest.files[static_cast<std::size_t>(lost - writers.begin())].name,
                           copy.step);
      if (world.rank() == 0) log_warning("{}", reason);
      continue;
    }
    write_checkpoint(world, directory ? &*directory : nullptr, std::move(manifest), writers,
                     intact);
    if (world.rank() == 0) {
      log_info("step {}: the checkpoint was rescued from memory copies", copy.step);
      say("rescued step {}\n", copy.step);
      flush_output();
    }
    return 0;
  }
  return nothing(world, reason + ". A restart uses the newest checkpoint on disk");
}

}  // namespace

void add_rescue(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "rescue", "Make a checkpoint from the memory copies of a run whose processes died");
  auto run = std::make_shared<std::string>();
  command
      ->add_option("run", *run,
                   "Run directory. Start one process on each node of the run that still answers, "
                   "with mpiexec or srun. Prints `rescued step N` or `nothing to rescue: REASON`, "
                   "both with exit code 0")
      ->required()
      ->transform(with_environment());
  command->callback([&chosen, run] {
    chosen = [run] {
      return on_all_ranks("rescue " + *run,
                          [&](const Communicator& world) { return rescue(world, *run); });
    };
  });
}

}  // namespace trireme
