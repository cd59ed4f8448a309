// The `trireme average SOURCE... --output CHECKPOINT` command: averages the weights of checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "app/best_checkpoint.hpp"
#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/mean_weights.hpp"
#include "lib/io/save_weights.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/io/stored_doubles.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

struct AverageArguments {
  std::vector<std::string> sources;
  std::string output;
  std::int64_t last = 0;  // number of checkpoints of each run directory; 0 means all
  bool ema = false;       // average the averaged weights
  std::vector<double> shares;
};

// Returns the intact checkpoints of a run, oldest first, or the last of them.
std::vector<fs::path> checkpoints_of_run(const fs::path& run, std::int64_t last) {
  std::vector<fs::path> found;
  for (const auto& info : intact_checkpoints(run / "checkpoints")) found.push_back(info.directory);
  require(std::ssize(found) >= last,
          "{} has {}, but --last is {}. checkpoint.keep_last sets how many a run keeps",
          run.string(), counted(std::ssize(found), "intact checkpoint"), last);
  if (last > 0) found.erase(found.begin(), found.end() - last);
  return found;
}

std::vector<fs::path> checkpoints_in(const AverageArguments& a) {
  std::vector<fs::path> all;
  bool any_run = false;
  for (const fs::path source : a.sources) {
    if (fs::is_directory(source / "checkpoints")) {
      any_run = true;
      std::ranges::copy(checkpoints_of_run(source, a.last), std::back_inserter(all));
    } else {
      require(is_there(source / manifest_name), "{}", not_a_checkpoint(source));
      all.push_back(source);
    }
  }
  require(any_run || a.last == 0, "--last needs a run directory, but no source is one");
  require(all.size() >= (a.ema ? 1 : 2), "average needs at least {}, but {} gives {}",
          a.ema ? "one checkpoint" : "two checkpoints", fmt::join(a.sources, ", "),
          all.empty() ? "none" : "only one");
  std::set<fs::path> different;
  for (const auto& path : all)
    require(different.insert(fs::canonical(path)).second,
            "{} is given twice: name it once, and "
            "give it a larger share with --shares",
            path.string());
  return all;
}

// Throws Error unless both checkpoints have the same model and, for adapters, the same base model.
void require_alike(const CheckpointReader& one, const CheckpointReader& other) {
  const auto differences = model_differences(description_of(one), description_of(other));
  require(differences.empty(), "{} has another model than {}: {}", other.directory().string(),
          one.directory().string(), fmt::join(differences, "; "));
  require(stored_type(one) == stored_type(other), "{} has weights in {}, but {} in {}",
          one.directory().string(), name_of(stored_type(one)), other.directory().string(),
          name_of(stored_type(other)));
  require(one.meta().tokenizer == other.meta().tokenizer, "{} and {} have different tokenizers",
          one.directory().string(), other.directory().string());
  require(one.meta().extra.base == other.meta().extra.base,
          "the adapters in {} have another base model than those in {}", other.directory().string(),
          one.directory().string());
  std::vector<std::pair<std::string, Shape>> params;
  for (const auto& p : one.params()) params.emplace_back(p.name, p.shape);
  other.require_model(params);
}

int average_of(const std::vector<fs::path>& paths, const AverageArguments& a) {
  std::vector<std::string> names;
  for (const auto& path : paths) names.push_back(path.string());
  require(a.shares.empty() || a.shares.size() == paths.size(),
          "--shares has {}, but there are {} checkpoints: {}",
          counted(std::ssize(a.shares), "number"), paths.size(), fmt::join(names, ", "));
  const auto shares = a.shares.empty() ? std::vector<double>(paths.size(), 1) : a.shares;
  const auto sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  require(
      std::isfinite(sum) && sum != 0,
      "the shares in --shares add up to {}, so they cannot be divided by their sum: give shares "
      "with a finite sum that is not 0",
      sum);
  std::vector<WeightedCheckpoint> all;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    all.push_back(
        {std::make_unique<CheckpointReader>(paths[i], weights_read(a.ema)), shares[i] / sum});
    require_alike(*all.front().reader, *all.back().reader);
  }
  // It has the deck of the last checkpoint. It begins at step 0, because it has no optimizer state.
  save_mean(a.output, without_run(all.back().reader->meta()), all);
  for (const auto& one : all) say("{:.6g} of {}\n", one.share, one.reader->directory().string());
  say("{}: the mean of {}{}\n", a.output, counted(all.size(), "checkpoint"),
      a.ema ? ", of their averaged weights" : "");
  return 0;
}

// A run may remove checkpoints while they are read. The next listing has newer ones.
int average(const AverageArguments& a) {
  for (int removals_left = 10;; --removals_left) {
    const auto paths = checkpoints_in(a);
    try {
      return average_of(paths, a);
    } catch (const Error&) {
      const bool removed = std::ranges::any_of(paths, [](auto& path) { return !is_there(path); });
      if (!removed || removals_left == 0) throw;
    }
  }
}

}  // namespace

void add_average(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "average", "Average the weights of checkpoints, such as the last ones of a run");
  auto a = std::make_shared<AverageArguments>();
  command
      ->add_option("sources", a->sources,
                   "Checkpoints, or run directories (uses all intact checkpoints of each)")
      ->required()
      ->transform(with_environment());
  command
      ->add_option("--output", a->output,
                   "Checkpoint to write; must not exist. It has no optimizer state")
      ->required()
      ->transform(with_environment());
  command
      ->add_option("--last", a->last,
                   "Number of newest checkpoints to use from each run directory (default: all)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  add_ema(*command, a->ema);
  command
      ->add_option(
          "--shares", a->shares,
          "Share of each checkpoint in the mean, separated by commas, such as 1,1,2. Order: "
          "as the sources; within a run directory, oldest first. Shares are divided by "
          "their sum (default: equal shares)")
      ->delimiter(',');
  command->callback([&chosen, a] { chosen = [a] { return average(*a); }; });
}

}  // namespace trireme
