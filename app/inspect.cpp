// The `trireme inspect PATH` command: describes a checkpoint, a token file or a file of DPO scores,
// and checks whether it is intact.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "app/commands.hpp"
#include "app/inspect_tokens.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "app/whole_number.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/data/token_file.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/describe.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/recovery_rows.hpp"
#include "lib/io/repair.hpp"
#include "lib/io/scores_file.hpp"

namespace trireme {

namespace {

struct InspectArguments {
  std::string path;
  bool verify = false, repair = false;
  std::optional<std::int64_t> document{};
};

void repair(const std::filesystem::path& path) {
  const auto all = list_checkpoints(path / "checkpoints");
  require(all.empty(),
          "--repair takes one checkpoint, not a run directory: name a checkpoint, such as {}",
          all.empty() ? "" : all.back().directory.string());
  const auto made = repair_checkpoint(path);
  if (made.empty())
    say("nothing to repair\n");
  else
    say("recreated: {}\n", fmt::join(made, ", "));
}

constexpr int tries = 10;  // a run may save and remove checkpoints while they are read

// Verifies all checkpoints, newest first. Prints the description of the newest intact checkpoint,
// then a verdict and the damage of each. Returns nothing if all of them were removed meanwhile.
std::optional<int> verify_all(const std::vector<CheckpointInfo>& all) {
  std::string intact, report;
  std::size_t damaged = 0, gone = 0;
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
    if (!problems.empty() && !is_there(directory)) {
      report += fmt::format("{}: removed while it was read\n", name);
      ++gone;
      continue;
    }
    for (const auto& p : problems) report += fmt::format("{}: {}\n", name, without_controls(p));
    report += fmt::format("{}: {}\n", name, problems.empty() ? "intact" : "damaged");
    if (!problems.empty()) ++damaged;
  }
  if (gone == all.size()) return {};
  say("{}verdict: {}; damaged checkpoints: {} of {}\n", report,
      intact.empty() ? "no checkpoint is intact"
                     : "every hash is right in " + intact + ", the newest intact checkpoint",
      damaged, all.size() - gone);
  return damaged == 0 ? 0 : 1;
}

int verify_run(const std::filesystem::path& run) {
  for (int i = 0; i < tries; ++i)
    if (const auto code = verify_all(list_checkpoints(run / "checkpoints"))) return *code;
  fail("the checkpoints of {} were removed while they were read", run.string());
}

// Describes the newest checkpoint whose file sizes are right, after a line for each newer
// checkpoint that is damaged.
int inspect_run(const std::filesystem::path& run) {
  for (int i = 1;; ++i) {
    const auto newest = newest_intact(run / "checkpoints", Check::sizes);
    const auto damaged = newest.skipped.size();
    if (newest.found) {
      try {
        const CheckpointReader reader(newest.found->directory);
        for (const auto& s : newest.skipped) say("skipped: {}\n", without_controls(s.damage));
        for (const auto& row : read_recoveries(run))
          say("recovery at {}: {}\n", without_controls(row.time), without_controls(text_of(row)));
        say("{}\nverdict: manifest and file sizes are right (--verify reads everything){}\n",
            describe(reader),
            damaged > 0 ? fmt::format("; newer damaged checkpoints: {}", damaged) : "");
        return damaged == 0 ? 0 : 1;
      } catch (const Error&) {
        if (i == tries || is_there(newest.found->directory)) throw;
        continue;
      }
    }
    for (const auto& s : newest.skipped) say("skipped: {}\n", without_controls(s.damage));
    fail(
        "{} holds no {}checkpoint{}", run.string(), damaged == 0 ? "" : "intact ",
        is_there(run / copy_owner_name)
            ? ". Memory copies may remain on its nodes: `trireme rescue` makes a checkpoint of them"
            : "");
  }
}

// Describes a file of scores. read_scores() checks the hash.
int inspect_scores(const std::filesystem::path& path) {
  const auto all = read_scores(path);
  say("{}: scores by {}, computed in {}, with samples of {} tokens\n  hash of the weights: "
      "{}\n",
      path.string(), all.checkpoint, all.compute, all.context, all.model);
  for (const auto& f : all.files)
    say("  {}: {}\n", f.file, counted(std::ssize(f.loss_D), "document"));
  say("verdict: intact\n");
  return 0;
}

int inspect(const InspectArguments& a) {
  const auto path = std::filesystem::path(a.path);
  std::error_code e;
  if (std::filesystem::is_regular_file(path, e)) {
    if (is_hdf5_file(path)) {
      require(!a.repair && !a.document,
              "--repair applies only to checkpoints and --document only to token files, but {} is "
              "an HDF5 file",
              path.string());
      return inspect_scores(path);
    }
    require(is_token_file(path),
            "{} is neither a token file nor a DPO score file. A checkpoint is a directory",
            path.string());
    require(!a.repair, "--repair applies only to checkpoints, but {} is a token file",
            path.string());
    if (a.verify) TokenFile(path).verify();
    inspect_tokens(path, a.document);
    if (a.verify) say("verdict: intact\n");
    return 0;
  }
  require(!a.document, "--document applies only to token files, and {} is not a token file",
          path.string());
  if (a.repair) repair(a.path);
  if (std::filesystem::is_directory(path / "checkpoints", e))
    return a.verify && !list_checkpoints(path / "checkpoints").empty() ? verify_run(path)
                                                                       : inspect_run(path);
  const CheckpointReader reader(path);
  say("{}\n", describe(reader));
  if (!a.verify) {
    say("verdict: manifest and file sizes are right (--verify reads everything)\n");
    return 0;
  }
  const auto problems = reader.verify();
  require(problems.empty() || is_there(path), "{} was removed while it was read", path.string());
  for (const auto& p : problems) say("{}\n", without_controls(p));
  say("verdict: {}\n", problems.empty() ? "intact, every hash is right" : "damaged");
  return problems.empty() ? 0 : 1;
}

}  // namespace

void add_inspect(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "inspect",
      "Describe a checkpoint, token file or DPO score file and check whether it is "
      "intact");
  auto a = std::make_shared<InspectArguments>();
  command
      ->add_option("checkpoint", a->path,
                   "Checkpoint, run directory, token file or DPO score file to describe")
      ->required()
      ->transform(with_environment());
  command->add_flag("--verify", a->verify, "Read all data and verify all hashes");
  command->add_flag("--repair", a->repair,
                    "Recreate missing or damaged manifest.json, master.h5 and tokenizer.bin of a "
                    "checkpoint whose shards are intact");
  command
      ->add_option(
          "--document", a->document,
          "For a token file: print document N, counted from 0, and which of its tokens are "
          "trained on")
      ->check(whole_number_from(0));
  command->callback([&chosen, a] { chosen = [a] { return inspect(*a); }; });
}

}  // namespace trireme
