#include "app/compare_replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "app/replayer.hpp"
#include "app/run_legs.hpp"
#include "lib/base/counted.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/run/record.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"

namespace trireme {

namespace {

// Compares the steps of a replay with the records of the run, up to the first difference.
class RecordCheck {
 public:
  explicit RecordCheck(const Side& side) : side_(side) {}

  void compare(std::int64_t step, const StepResult& now, Trainer& trainer) {
    if (first_ > 0) return;  // after a difference, all later steps differ
    const auto row = std::ranges::find(side_.digests, step, &DigestRow::step);
    if (row != side_.digests.end()) {
      ++steps_;
      tensors_ = differing_tensors(*row, trainer.digests());
      if (!tensors_.empty()) first_ = step;
      return;
    }
    const auto line = std::ranges::find(side_.history, step, &HistoryRow::step);
    if (line == side_.history.end() || !is_measured(now.outcome)) return;
    ++steps_;
    if (line->loss != now.loss || line->grad_norm != now.grad_norm) first_ = step;
  }

  std::int64_t first() const { return first_; }  // first step with other bits; 0: none
  // Returns the result in words, like "bitwise equal to its record in 4 steps".
  std::string text(const ModelPlaces& places) const {
    if (steps_ == 0) return "nothing is recorded for these steps";
    if (first_ == 0) return "bitwise equal to its record in " + counted(steps_, "step");
    if (tensors_.empty())
      return fmt::format("loss or gradient norm differs from its record from step {} on", first_);
    return fmt::format("differs from its record from step {} on, in {} tensors, first in {}",
                       first_, tensors_.size(),
                       tensor_text({tensors_[0].array, tensors_[0].param}, places));
  }

 private:
  const Side& side_;
  int steps_ = 0;
  std::int64_t first_ = 0;
  std::vector<DigestPlace> tensors_;
};

bool is_machine_of(const Side& side, const std::string& here) {
  return !side.meta || side.meta->extra.machine.empty() || side.meta->extra.machine == here;
}

// Returns true if the run took the steps after `begin`, up to and including `step`, on one rank.
// Only the history rows of these steps can tell. A restart may have changed the grid, and the
// checkpoints from the former grid may be gone.
bool on_one_rank_then(const Side& side, const Deck& deck, std::int64_t begin, std::int64_t step) {
  const auto& p = deck.parallel;
  return p.pipe * p.data * p.seq == 1 &&
         std::ranges::none_of(side.history, [&](const HistoryRow& row) {
           return begin < row.step && row.step <= step && row.bytes_sent > 0;
         });
}

// Returns the reason why a replay on one rank of this kind of machine must reproduce the recorded
// bits. Returns null if it need not reproduce them.
const char* promise(const Side& side, const Deck& deck, std::int64_t begin, std::int64_t step) {
  if (deck.run.exactness == Exactness::invariant)
    return "run.exactness = \"invariant\" guarantees the same bits on any grid";
  if (deck.run.backend != "cuda" && on_one_rank_then(side, deck, begin, step))
    return "the run also used one rank";
  return nullptr;
}

}  // namespace

void require_recorded_rates(const Side& side, const Deck& deck, const std::string& from,
                            std::int64_t last) {
  const auto meta = from.empty() ? CheckpointMeta{} : CheckpointReader(from).meta();
  const auto steps = steps_of_run(deck.train, deck.data.context, meta);
  const auto ramp = ramp_after(meta, deck.train, deck.data.context);
  // The tolerance is a few rounding errors of the peak: another libm may compute another last bit
  // of the cosine.
  const double same = 16 * std::numeric_limits<double>::epsilon() * deck.optimizer.lr;
  for (const auto& row : side.history) {
    if (row.step <= meta.step || row.step > last) continue;
    const auto lr =
        learning_rate(deck.schedule, deck.optimizer.lr, step_of_run(ramp, row.step - 1, steps));
    require(std::abs(row.lr - lr) <= same,
            "step {} had a learning rate of {}, but the deck of the steps gives {}. The length or "
            "schedule of the run has changed since",
            row.step, row.lr, lr);
  }
}

std::optional<Replayed> replay(const Side& side, std::int64_t step, std::int64_t most,
                               const ModelPlaces& places, Report& report) {
  const auto from = checkpoint_before(side, step);
  const auto begin = from ? from->step : 0;
  const auto name = fmt::format("replay of {}", side.label);
  Report::Json json{{"side", side.label}, {"from_step", begin}, {"to_step", step}};
  const auto without = [&](const std::string& why) {
    json["left_out"] = why;
    report.add("replays", json, fmt::format("{}: left out: {}", name, why));
    return std::nullopt;
  };
  if (step - begin > most)
    return without(fmt::format(
        "there are {} steps between {} and step {}. Add --replay-steps {} to repeat them",
        step - begin, from ? "its checkpoint" : "the start of the run", step, step - begin));
  const auto begin_path = from ? from->directory.string() : std::string();
  DeckOfSteps of_steps;
  const auto& deck = of_steps.deck;
  Replayed replayed;
  RecordCheck check(side);
  bool same_machine = true;
  try {
    of_steps = deck_of_steps(side, {begin + 1, step});
    require_recorded_rates(side, deck, begin_path, step);
    Replayer run(deck, side.path, begin_path);
    same_machine = is_machine_of(side, run.machine());
    while (run.step() < step) {
      const auto result = run.next();
      check.compare(run.step(), result, run.trainer());
    }
    replayed.values = gradients_of(run.trainer());
    replayed.values.merge(state_of(run.trainer()));
  } catch (const Error& e) {
    return without(e.what());
  }
  const auto* const why =
      same_machine && of_steps.same_rounding ? promise(side, deck, begin, step) : nullptr;
  replayed.faulty = check.first() > 0 && why;
  json["differs_from_record_at"] = check.first() > 0 ? Report::Json(check.first()) : Report::Json();
  json["faulty"] = replayed.faulty;
  report.add(
      "replays", json,
      fmt::format(
          "{}, steps {} to {} on one rank: {}{}", name, begin + 1, step, check.text(places),
          check.first() == 0 ? ""
          : replayed.faulty
              ? fmt::format(
                    "\n  {}, so the machine or the program with which {} ran caused the difference",
                    why, side.label)
          : same_machine ? ", which a different order of summation can cause"
                         : ", which a different kind of machine can cause"));
  return replayed;
}

}  // namespace trireme
