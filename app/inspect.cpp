// trireme inspect CKPT [--verify] [--repair]: what a checkpoint holds, and whether it is intact.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/error.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/describe.hpp"
#include "lib/io/repair.hpp"

namespace trireme {

namespace {

struct InspectArguments {
  std::string path;
  bool verify = false, repair = false;
};

// The path itself if it is a checkpoint; of a run directory the newest one with the right file
// sizes, after a line for each newer one that is damaged.
std::filesystem::path checkpoint_in(const std::filesystem::path& path) {
  std::error_code e;
  const auto checkpoints = path / "checkpoints";
  if (!std::filesystem::is_directory(checkpoints, e)) return path;
  const auto newest = newest_intact(checkpoints, Check::sizes);
  for (const auto& reason : newest.skipped) say("skipped: {}\n", reason);
  require(newest.found.has_value(), "{} holds no {}checkpoint", path.string(),
          newest.skipped.empty() ? "" : "intact ");
  return newest.found->directory;
}

void repair(const std::filesystem::path& path) {
  const auto all = list_checkpoints(path / "checkpoints");
  require(all.empty(), "--repair takes one checkpoint, such as {}",
          all.empty() ? "" : all.back().directory.string());
  const auto made = repair_checkpoint(path);
  if (made.empty())
    say("nothing to repair\n");
  else
    say("made again: {}\n", fmt::join(made, ", "));
}

// Of a run directory all checkpoints, newest first: the newest intact one as it is, then whether
// each is intact, and what is wrong with it.
int verify_all(const std::vector<CheckpointInfo>& all) {
  std::string intact, report;
  std::size_t damaged = 0;
  for (std::size_t i = all.size(); i-- > 0;) {
    const auto& directory = all[i].directory;
    std::vector<std::string> problems;
    try {
      const CheckpointReader reader(directory);
      problems = reader.verify();
      if (problems.empty() && intact.empty()) {
        intact = directory.string();
        say("{}\n", describe(reader));
      }
    } catch (const Error& e) {
      problems = {e.what()};
    }
    const auto name = directory.filename().string();
    for (const auto& p : problems) report += fmt::format("{}: {}\n", name, p);
    report += fmt::format("{}: {}\n", name, problems.empty() ? "intact" : "damaged");
    if (!problems.empty()) ++damaged;
  }
  say("{}verdict: {}; {} of {} are damaged\n", report,
      intact.empty() ? "no checkpoint is intact"
                     : "every hash is right in " + intact + ", the newest intact one",
      damaged, all.size());
  return damaged == 0 ? 0 : 1;
}

int inspect(const InspectArguments& a) {
  if (a.repair) repair(a.path);
  if (const auto all = list_checkpoints(std::filesystem::path(a.path) / "checkpoints");
      a.verify && !all.empty())
    return verify_all(all);
  const CheckpointReader reader(checkpoint_in(a.path));
  say("{}\n", describe(reader));
  if (!a.verify) {
    say("verdict: manifest and file sizes are right (--verify reads everything)\n");
    return 0;
  }
  const auto problems = reader.verify();
  for (const auto& p : problems) say("{}\n", p);
  say("verdict: {}\n", problems.empty() ? "intact, every hash is right" : "damaged");
  return problems.empty() ? 0 : 1;
}

}  // namespace

void add_inspect(CLI::App& app, std::function<int()>& chosen) {
  auto* command =
      app.add_subcommand("inspect", "what a checkpoint holds, and whether it is intact");
  auto a = std::make_shared<InspectArguments>();
  command->add_option("checkpoint", a->path, "a checkpoint or run directory")
      ->required()
      ->transform(with_environment());
  command->add_flag("--verify", a->verify, "read everything and compare all hashes");
  command->add_flag("--repair", a->repair,
                    "make damaged or missing manifest, master file and tokenizer again");
  command->callback([&chosen, a] { chosen = [a] { return inspect(*a); }; });
}

}  // namespace trireme
