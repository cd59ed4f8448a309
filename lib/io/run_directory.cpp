#include "lib/io/run_directory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/posix_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

// Everything that a run writes.
constexpr std::array<std::string_view, 10> own_names = {
    "log",         "history.csv", "evaluation.csv", "effective.toml", "outcome.json",
    "checkpoints", "trace",       "lock",           "checkpoint_now", "stop_now"};

static bool is_there(const fs::path& path) {
  std::error_code e;
  return fs::exists(path, e);
}

static bool holds_a_run(const fs::path& path) {
  if (is_there(path / "outcome.json") || !list_checkpoints(path / "checkpoints").empty())
    return true;
  // A history that has nothing under its header is that of a run that never made a step.
  const auto history = path / "history.csv";
  if (!is_there(history)) return false;
  const auto text = read_text(history);
  return std::count(text.begin(), text.end(), '\n') > 1;
}

static void empty_run(const fs::path& path) {
  std::vector<fs::path> own, foreign;
  std::error_code e;
  for (fs::directory_iterator it(path, e), end; !e && it != end; it.increment(e)) {
    const auto name = it->path().filename().string();
    const bool known = std::find(own_names.begin(), own_names.end(), name) != own_names.end();
    (known ? own : foreign).push_back(it->path());
  }
  require(!e, "cannot read the directory {}: {}", path.string(), e.message());
  require(foreign.empty() || is_there(path / "effective.toml"),
          "{} does not look like a run directory (it holds {}), so --overwrite leaves it alone -- "
          "choose another --run-dir",
          path.string(), foreign.empty() ? "" : foreign[0].filename().string());
  // What marks it as a run directory goes last: an interrupted removal can be repeated.
  std::stable_partition(own.begin(), own.end(),
                        [](auto& p) { return p.filename() != "effective.toml"; });
  for (const auto& entry : own) remove_tree(entry);
}

RunDirectory::RunDirectory(fs::path path, Existing existing) : path_(std::move(path)) {
  std::error_code e;
  const bool there = fs::exists(path_, e);
  require(!there || fs::is_directory(path_, e), "the run directory {} is a file", path_.string());
  if (there && existing == Existing::refuse) {
    require(!holds_a_run(path_),
            "{} holds a run already -- continue it with --restart latest, or replace it with "
            "--overwrite",
            path_.string());
  }
  if (there && existing == Existing::overwrite) empty_run(path_);
  try {
    make_directory(path_);
    make_directory(checkpoints());
    const auto probe = path_ / fmt::format(".probe-{}", ::getpid());
    write_new(probe, "");
    remove_tree(probe);
  } catch (const Error& error) {
    fail("the run directory {} cannot be written ({}) -- choose another with --run-dir",
         path_.string(), error.what());
  }
}

void RunDirectory::write_deck(std::string_view effective_deck) const {
  replace_atomically(path_ / "effective.toml", effective_deck);
}

void RunDirectory::write_outcome(const Outcome& o) const {
  const nlohmann::ordered_json json = {{"status", o.status},
                                       {"step", o.step},
                                       {"exit_reason", o.exit_reason},
                                       {"last_good_checkpoint", o.last_good_checkpoint}};
  // A reason may quote bytes that are no UTF-8, such as a file name.
  const auto text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  replace_atomically(path_ / "outcome.json", text + "\n");
}

std::optional<Outcome> RunDirectory::read_outcome() const {
  if (!is_there(path_ / "outcome.json")) return {};
  try {
    const auto json = nlohmann::json::parse(read_text(path_ / "outcome.json"));
    return Outcome{json.at("status").get<std::string>(), json.at("step").get<std::int64_t>(),
                   json.at("exit_reason").get<std::string>(),
                   json.at("last_good_checkpoint").get<std::string>()};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace trireme
