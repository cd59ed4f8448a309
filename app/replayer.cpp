#include "app/replayer.hpp"

#include <utility>

#include "lib/run/schedule.hpp"
#include "lib/run/step_inputs.hpp"

namespace trireme {

static Deck deck_here(Deck deck, bool moved) {
  // Kernels are the host's, and its memory is what they are tried in.
  const bool elsewhere = deck.run.backend == "fenced" || (moved && deck.run.backend != "ref");
  if (elsewhere) deck.run.backend = "host";
  return on_one_rank(std::move(deck));
}

Replayer::Replayer(const Deck& deck, const std::string& checkpoint, std::uint64_t rounding)
    : in_(open_inputs({}, deck_here(deck, rounding != 0), checkpoint)),
      machine_(open_machine({}, in_, rounding)) {
  const auto wanted = deck.precision.compute, here = trainer().model().compute();
  require(here == wanted,
          "the steps are computed in {}, which this processor cannot do. Run this command on "
          "another machine",
          name_of(wanted));
}

StepResult Replayer::next() {
  const auto& deck = in_.deck;
  const auto lr = learning_rate(deck.schedule, deck.optimizer.lr, in_.meta.step, in_.total_steps);
  const auto result = trainer().step(
      in_.meta.step, lr, batches_of_step(trainer(), in_.training, deck.train, in_.meta.samples));
  count_step(in_.meta, deck.train, in_.training.sample_length());
  return result;
}

}  // namespace trireme
