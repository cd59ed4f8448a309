#include "app/replayer.hpp"

#include <utility>

#include "app/run_support.hpp"
#include "app/training_input.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"
#include "lib/run/step_inputs.hpp"

namespace trireme {

static Deck deck_here(Deck deck, bool moved) {
  // The fenced backend only runs the host's kernels in another kind of memory, so the host backend
  // computes the same results.
  const bool elsewhere = deck.run.backend == "fenced" || (moved && deck.run.backend != "ref");
  if (elsewhere) deck.run.backend = "host";
  return on_one_rank(std::move(deck));
}

Replayer::Replayer(const Deck& deck, const std::filesystem::path& run,
                   const std::string& checkpoint, std::uint64_t rounding)
    : in_(open_inputs({}, deck_here(deck, rounding != 0), checkpoint, run)),
      rollbacks_(read_rollbacks(run)),
      skips_(skip_rules(in_)),
      machine_(open_machine({}, in_, rounding)) {
  const auto wanted = deck.precision.compute, here = trainer().model().compute();
  require(here == wanted,
          "the steps are computed in {}, which this processor cannot do. Run this command on "
          "another machine",
          name_of(wanted));
}

StepResult Replayer::next() {
  const auto& deck = in_.deck;
  const auto ramp = ramp_after(in_.meta, deck.train, deck.data.context);
  const auto batch = ramp.batch(in_.meta.step);
  const auto limits = skips_.limits(in_.meta.step);
  const auto lr = learning_rate(deck.schedule, deck.optimizer.lr,
                                step_of_run(ramp, in_.meta.step, in_.total_steps));
  StepResult result;
  if (skips_.lists(in_.meta.step + 1))
    result = trainer().skip(in_.meta.step);
  else
    result = trainer().step(
        in_.meta.step, lr,
        batches_of_step(trainer(), in_.training, deck.train.microbatch, {in_.meta.samples, batch}),
        {}, Replay::no, limits);
  if (result.outcome == StepOutcome::updated) skips_.add(result.loss, result.grad_norm);
  count_step(in_.meta, batch, in_.training.sample_length());
  // The run may have rolled back to this step, and continued with later samples.
  if (last_rollback_to(rollbacks_, in_.meta.step)) {
    continue_after_rollback(in_.meta, rollbacks_);
    in_.training = with_scores(deck, open_training(deck, in_.meta).data);
  }
  return result;
}

}  // namespace trireme
