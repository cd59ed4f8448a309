#include "lib/io/run_directory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/run_files.hpp"
#include "lib/io/run_lock.hpp"

namespace trireme {

namespace fs = std::filesystem;

static bool holds_a_run(const fs::path& path) {
  if (is_there(path / "outcome.json") || !list_checkpoints(path / "checkpoints").empty())
    return true;
  // A history that has only a header belongs to a run that never finished a step.
  const auto history = path / "history.csv";
  if (!is_there(history)) return false;
  const auto text = read_text(history);
  return std::count(text.begin(), text.end(), '\n') > 1;
}

// Throws Error if a file of the run is not a regular file. Opening a pipe would block.
static void require_regular_files(const fs::path& run) {
  std::vector<fs::path> names = {"lock",          "log",         "history.csv",
                                 "digests.csv",   "routing.csv", "effective.toml",
                                 "outcome.json",  "timing.json", "skipped.csv",
                                 "rollbacks.csv", "starts.json"};
  for (const auto& set : evaluated_sets(run)) names.push_back(evaluation_table({}, set));
  for (const auto& name : names) {
    std::error_code e;
    require(!is_there(run / name) || fs::is_regular_file(run / name, e),
            "{} is not a regular file -- remove it, or choose another --run-dir",
            (run / name).string());
  }
}

static void require_own(const fs::path& path, const RunFiles& files) {
  require(files.others.empty() || is_there(path / "effective.toml"),
          "{} does not look like a run directory (it holds {}), so --overwrite leaves it alone -- "
          "choose another --run-dir",
          path.string(), files.others.empty() ? "" : files.others[0].filename().string());
  require_no_foreign(path, files);
}

static void empty_run(const fs::path& path) {
  auto files = files_of_run(path);
  require_own(path, files);
  // The file that marks a run directory is removed last, so that an interrupted removal can be
  // repeated.
  std::stable_partition(files.own.begin(), files.own.end(),
                        [](auto& p) { return p.filename() != "effective.toml"; });
  for (const auto& entry : files.own)
    if (entry.filename() != "lock") remove_path(entry);
}

static void refuse_existing_run(const fs::path& path, Existing existing) {
  if (existing == Existing::restart || existing == Existing::overwrite) return;
  if (!is_there(path) || !holds_a_run(path)) return;
  require(existing == Existing::refuse,
          "another process began a run in {} while this process started: let the other process "
          "train, or choose another --run-dir",
          path.string());
  fail(
      "{} already contains a run -- continue it with --restart latest, or replace it with "
      "--overwrite",
      path.string());
}

RunDirectory::RunDirectory(fs::path path, Existing existing, const std::function<bool()>& stop)
    : path_(std::move(path)) {
  std::error_code e;
  require(!fs::exists(path_, e) || fs::is_directory(path_, e),
          "the run directory {} is a file: choose another --run-dir", path_.string());
  require_regular_files(path_);
  refuse_existing_run(path_, existing);
  try {
    make_directory(path_);
    const auto probe = path_ / fmt::format(".probe-{}", ::getpid());
    write_new(probe, "");
    remove_tree(probe);
  } catch (const Error& error) {
    fail("the run directory {} cannot be written ({}) -- choose another with --run-dir",
         path_.string(), error.what());
  }
  if (existing == Existing::overwrite) require_own(path_, files_of_run(path_));
  LockOptions options{.stop = stop};
  options.lost = [run = path_](const std::string& why) {
    log_error("{}", why);
    record_lost_lock(run, why);
    std::_Exit(1);
  };
  lock_ = std::make_shared<RunLock>(path_, std::move(options));
  refuse_existing_run(path_, existing);  // repeated, because a run may have ended meanwhile
  make_directory(checkpoints());
}

void RunDirectory::remove_earlier_run() const {
  empty_run(path_);
  make_directory(checkpoints());
}

void RunDirectory::write_deck(std::string_view effective_deck) const {
  replace_atomically(path_ / "effective.toml", effective_deck);
}

const std::string& RunDirectory::lock_text() const {
  return lock_->text();
}

void RunDirectory::require_lock() const {
  trireme::require_lock(path_, lock_text());
}

static std::string text_of(const Outcome& o) {
  const nlohmann::ordered_json json = {
      {"status", o.status},           {"step", o.step},
      {"exit_reason", o.exit_reason}, {"last_good_checkpoint", o.last_good_checkpoint},
      {"machine", o.machine},         {"job", o.start.job},
      {"restart", o.start.restart},   {"recovery", o.start.recovery},
      {"command", o.start.command}};
  // A reason may quote bytes that are not UTF-8, such as a file name.
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void record_lost_lock(const fs::path& run, const std::string& reason) {
  try {
    if (is_there(run / "lock")) return;  // the holder of the lock writes the outcome
    auto there = read_outcome(run);
    if (!there || there->status != "running") return;
    there->status = "failed";
    there->exit_reason = reason;
    replace_atomically(run / "outcome.json", text_of(*there));
  } catch (const Error&) {  // the directory itself may be gone
  }
}

void write_outcome(const fs::path& run, const std::string& lock_text, const Outcome& o) {
  const auto text = text_of(o);
  const auto path = run / "outcome.json";
  try {
    require_lock(run, lock_text);
  } catch (const LostLock& e) {
    record_lost_lock(run, e.what());
    throw;
  }
  try {
    replace_atomically(path, text);
  } catch (const Error&) {
    // If the disk has no room for another file, the old file may still have room.
    try {
      auto file = PosixFile::open_to_write(path);
      file.write_at(std::as_bytes(std::span(text)), 0);
      file.resize(static_cast<std::int64_t>(text.size()));
    } catch (const Error&) {
    }
    throw;
  }
}

void RunDirectory::write_outcome(const Outcome& o) const {
  trireme::write_outcome(path_, lock_text(), o);
}

std::optional<Outcome> RunDirectory::read_outcome() const {
  return trireme::read_outcome(path_);
}

std::optional<Outcome> read_outcome(const fs::path& run) {
  if (!is_there(run / "outcome.json")) return {};
  try {
    const auto json = parse_json(read_text(run / "outcome.json"));
    return Outcome{json.at("status").get<std::string>(),
                   json.at("step").get<std::int64_t>(),
                   json.at("exit_reason").get<std::string>(),
                   json.at("last_good_checkpoint").get<std::string>(),
                   json.value("machine", ""),
                   {json.value("job", ""), json.value("restart", 0), json.value("command", ""),
                    json.value("recovery", 0)}};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace trireme
