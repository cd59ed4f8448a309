#include "app/best_checkpoint.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/io/checkpoint_list.hpp"

namespace trireme {

namespace fs = std::filesystem;

fs::path best_checkpoint(const fs::path& run, bool ema) {
  const auto checkpoints = run / "checkpoints";
  require(is_there(checkpoints),
          "--best chooses among the checkpoints of a run, but {} is not a run directory",
          run.string());
  const auto deck = deck_of(CheckpointReader(find_checkpoint(run)));
  const auto ranking = ranking_of(deck);
  const auto table = evaluation_table(run, ranking.set);
  const auto rows = read_evaluations(table);
  const auto ranked = best_first(rows, ranking.by);
  require(!ranked.empty(),
          "{} has no evaluations in {}. Leave out --best to use the newest checkpoint",
          run.string(), table.string());
  const auto all = intact_checkpoints(checkpoints);
  for (const auto step : ranked) {
    const auto found = std::ranges::find(all, step, &CheckpointInfo::step);
    if (found == all.end()) continue;
    if (step != ranked.front())
      log_warning(
          "the best evaluation is that of step {}, but there is no intact checkpoint of this step. "
          "checkpoint.keep_best keeps the best checkpoints",
          ranked.front());
    log_info("the best checkpoint is {}, by the {} in {}{}", found->directory.string(),
             name_of(ranking.by), table.string(),
             deck.evaluate.ema && !ema
                 ? "; these evaluations used the averaged weights, so pass --ema, too"
                 : "");
    return found->directory;
  }
  fail(
      "{} has no intact checkpoint of a step with an evaluation in {}. Make one of "
      "evaluate.every_steps and checkpoint.every_steps a multiple of the other",
      run.string(), table.string());
}

void add_best(CLI::App& command, bool& best) {
  command.add_flag("--best", best,
                   "Use the checkpoint with the best evaluation (evaluate.best_by) instead of the "
                   "newest one. Needs a run directory");
}

WeightsRead weights_read(bool ema) {
  return ema ? WeightsRead::averaged : WeightsRead::trained;
}

void add_ema(CLI::App& command, bool& ema) {
  command.add_flag("--ema", ema,
                   "Use the averaged weights in place of the weights. Needs a checkpoint of a run "
                   "with train.ema");
}

}  // namespace trireme
