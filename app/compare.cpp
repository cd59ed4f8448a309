// The `trireme compare A B` command: finds where two runs, or two checkpoints, first differ, and
// whether rounding errors explain the difference.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "app/commands.hpp"
#include "app/compare_replay.hpp"
#include "app/compare_rounding.hpp"
#include "app/compare_side.hpp"
#include "app/output.hpp"
#include "app/replayer.hpp"
#include "app/run_legs.hpp"
#include "app/whole_number.hpp"
#include "lib/base/array_names.hpp"
#include "lib/base/error_text.hpp"
#include "lib/base/log.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

namespace {

constexpr int exit_equal = 0, exit_differ = 1, exit_trouble = 2;

struct CompareArguments {
  std::string a, b;
  bool json = false, no_replay = false;
  std::int64_t replay_steps = usual_replay_steps;
};

class Comparison {
 public:
  explicit Comparison(const CompareArguments& arguments)
      : arguments_(arguments), a_(open_side("A", arguments.a)), b_(open_side("B", arguments.b)) {
    places_.spec = make_spec(a_.deck.model, a_.deck.adapter);
    const auto& p = a_.deck.parallel;
    const Pipeline pipe{p.schedule, static_cast<int>(p.pipe), static_cast<int>(p.chunks)};
    const auto blocks = blocks_of_stages(places_.spec, a_.deck.data.context, p.stage_layers, pipe);
    places_.stage_of_unit = stages_of_units(places_.spec, blocks);
    for (auto& stage : places_.stage_of_unit) stage = pipe.stage_of(stage);
  }

  int run() {
    describe(a_, "a");
    describe(b_, "b");
    settings();
    if (a_.is_run && b_.is_run) compare_tables();
    compare_checkpoints();
    require(compared_,
            "{} and {} cannot be compared: they have no recorded step in common and no checkpoints "
            "of the same step",
            a_.path.string(), b_.path.string());
    if (differs_ && !arguments_.no_replay) {
      if (first_ > 0) replay_both();
      look_at_rounding();
    }
    return verdict();
  }
  const Report& report() const { return report_; }

 private:
  void describe(const Side& side, const char* key) {
    const auto& p = side.deck.parallel;
    const bool trained = p.data > 0;  // an imported checkpoint has no deck, and so no grid
    report_.say(
        key,
        {{"path", side.path.string()},
         {"kind", side.is_run ? "run" : "checkpoint"},
         {"step", side.step},
         {"grid", trained ? Report::Json({p.pipe, p.data, p.seq, p.expert}) : Report::Json()}},
        fmt::format(
            "{}: {} {}, step {}{}", side.label, side.is_run ? "run" : "checkpoint",
            side.path.string(), side.step,
            trained
                ? fmt::format(", grid pipe {} x data {} x seq {}{}", p.pipe, p.data, p.seq,
                              p.expert > 1 ? fmt::format(" with experts over {}", p.expert) : "")
                : ""));
  }

  void settings() {
    settings_ = setting_differences(a_, b_);
    report_.say("settings", settings_,
                settings_.empty()
                    ? "settings: deck, version and token files are the same, as far as recorded"
                    : fmt::format("settings that differ:\n  {}", fmt::join(settings_, "\n  ")));
  }

  void take(std::int64_t common, const std::optional<std::int64_t>& first) {
    compared_ = compared_ || common > 0;
    differs_ = differs_ || first;
    if (first && (first_ == 0 || *first < first_)) first_ = *first;
  }

  void compare_tables() {
    const auto history = compare_histories(a_.history, b_.history);
    report_.table("history", history);
    take(history.steps, history.first);
    for (const auto& c : history.differ) rates_differ_ = rates_differ_ || c.column == "lr";
    const auto digests = compare_digests(a_.digests, b_.digests);
    report_.digests(digests, places_);
    take(digests.steps, digests.first);
    for (const auto& [set, of_a] : a_.evaluations) {
      const auto of_b = b_.evaluations.find(set);
      if (of_b == b_.evaluations.end()) continue;
      const auto evaluations = compare_evaluations(of_a, of_b->second);
      const auto key = set.empty() ? "evaluations" : "evaluations[" + set + "]";
      if (evaluations.steps > 0) report_.table(key, evaluations);
      // A difference between evaluations does not set first_. An evaluation measures the state
      // after its step, and the step itself may have caused the difference.
      compared_ = compared_ || evaluations.steps > 0;
      differs_ = differs_ || evaluations.first;
    }
  }

  // Returns the steps of the checkpoints of A and B to compare, or nothing if there are none.
  std::optional<std::pair<std::int64_t, std::int64_t>> steps_to_compare() const {
    if (!a_.is_run && !b_.is_run) return std::pair(a_.step, b_.step);
    if (!a_.is_run || !b_.is_run) {
      const auto &run = a_.is_run ? a_ : b_, &checkpoint = a_.is_run ? b_ : a_;
      if (!checkpoint_of(run, checkpoint.step)) {
        std::vector<std::int64_t> there;
        for (const auto& info : run.checkpoints) there.push_back(info.step);
        fail("{} is a checkpoint of step {}, but {} has {}", checkpoint.path.string(),
             checkpoint.step, run.path.string(),
             there.empty() ? "no checkpoints"
                           : fmt::format("checkpoints only of steps {}. To compare different "
                                         "steps, name one of these checkpoints instead of the run",
                                         fmt::join(there, ", ")));
      }
      return std::pair(checkpoint.step, checkpoint.step);
    }
    const auto common = common_checkpoints(a_, b_);
    if (common.empty()) return {};
    const auto at = first_ == 0 ? common.end() : std::ranges::lower_bound(common, first_);
    const auto step = first_ > 0 && at != common.end() ? *at : common.back();
    return std::pair(step, step);
  }

  void compare_checkpoints() {
    const auto steps = steps_to_compare();
    if (!steps) return;
    auto x = checkpoint_of(a_, steps->first), y = checkpoint_of(b_, steps->second);
    if (!x || !y) return;
    require_comparable(places_.spec, *x, *y);
    const bool same_step = steps->first == steps->second;
    state_ = compare_states(places_.spec, *x, *y);
    report_.tensors(same_step ? fmt::format("checkpoints of step {}", steps->first)
                              : fmt::format("checkpoints of different steps, {} and {}",
                                            steps->first, steps->second),
                    state_, places_);
    if (x->meta().updates != y->meta().updates)
      report_.say("updates", "differ",
                  "  the parameters were updated different numbers of times: steps were skipped, "
                  "or different parameters were frozen");
    compared_ = true;
    const bool differ =
        count_differing(state_) > 0 || !same_step || x->meta().updates != y->meta().updates;
    differs_ = differs_ || differ;
    if (same_step && differ) state_step_ = steps->first;
  }

  // Replays both sides up to the first step that differs, and compares their results.
  void replay_both() {
    const auto one = [&](const Side& side) {
      return replay(side, first_, arguments_.replay_steps, places_, report_);
    };
    const auto x = one(a_), y = one(b_);
    if (!x || !y) return;
    const auto all = compare_values(x->values, y->values);
    report_.tensors(fmt::format("step {} in both replays", first_), all, places_);
    if (count_differing(all) == 0)
      report_.say(
          "replays_equal", true,
          rates_differ_
              ? "  the gradients are therefore equal, and the learning rates cause the difference"
              : "  both decks therefore compute the same values, and the grids, programs or "
                "machines cause the difference");
    std::ranges::copy_if(all, std::back_inserter(gradients_),
                         [](const TensorDifference& d) { return d.name.array == gradients_array; });
  }

  static bool rounds_messages(const Deck& d) {
    return d.precision.reduce == DType::bf16 && d.parallel.data * d.parallel.seq > 1 &&
           d.run.exactness != Exactness::invariant;
  }

  bool both_invariant() const {
    const auto &x = a_.deck, &y = b_.deck;
    return x.run.exactness == Exactness::invariant && y.run.exactness == Exactness::invariant &&
           exact_chunk(x) == exact_chunk(y);
  }

  // Returns the newest checkpoint before `step` whose state is the same on both sides. Returns
  // nothing if replays must start from the beginning of the run.
  std::optional<CheckpointInfo> common_start(std::int64_t step) const {
    auto common = common_checkpoints(a_, b_);
    for (auto at = common.rbegin(); at != common.rend(); ++at) {
      if (*at >= step) continue;
      auto x = checkpoint_of(a_, *at), y = checkpoint_of(b_, *at);
      if (x && y && equal_states(places_.spec, *x, *y)) return CheckpointInfo{x->directory(), *at};
    }
    return {};
  }

  // Returns the reason why rounding cannot be tested, or an empty string if it can.
  std::string no_question(const RoundingQuestion& q) const {
    if (both_invariant())
      return "run.exactness = \"invariant\" guarantees equal bits, so rounding cannot explain a "
             "difference";
    if (const auto other = other_training(settings_); !other.empty())
      return fmt::format("A and B were trained with different settings: {}", other[0]);
    for (const auto* side : {&a_, &b_})
      if (rounds_messages(side->deck))
        return fmt::format(
            "{} sends gradients as bf16, and the test does not reproduce that rounding",
            side->label);
    if (rates_differ_) return "the learning rates differ";
    if (q.last() == 0) return "nothing that can be recomputed differs";
    if (q.last() - q.from_step > arguments_.replay_steps)
      return fmt::format(
          "there are {} steps between the last equal state and the first difference. Add "
          "--replay-steps {} to repeat them",
          q.last() - q.from_step, q.last() - q.from_step);
    return {};
  }

  void look_at_rounding() {
    RoundingQuestion q;
    q.step = first_;
    if (first_ > 0) add_numbers(q);
    if (count_differing(gradients_) > 0) q.gradients = gradients_;
    const auto begin = first_ > 0 ? first_ : state_step_;
    if (const auto start = common_start(begin)) {
      q.from = start->directory.string();
      q.from_step = start->step;
    }
    // If the tables differ, the state is tested only if few replayed steps reach it.
    if (first_ == 0 || state_step_ - q.from_step <= arguments_.replay_steps) {
      q.state_step = state_step_;
      if (state_step_ > 0) q.state = state_;
    }
    if (const auto why = no_question(q); !why.empty()) {
      report_.say("rounding", {{"not_asked", why}}, fmt::format("rounding: not tested: {}", why));
      return;
    }
    q.run = a_.path;
    try {
      q.deck = deck_of_steps(a_, {q.from_step + 1, q.last()}).deck;
      require_recorded_rates(a_, q.deck, q.from, q.last());
      explained_ = explain(q, places_, report_);
    } catch (const Error& e) {
      report_.say(
          "rounding", {{"error", e.what()}},
          fmt::format("rounding: not tested, because the steps cannot be repeated: {}", e.what()));
    }
  }

  void add_numbers(RoundingQuestion& q) const {
    const auto row = [&](const Side& side) {
      return std::ranges::find(side.history, first_, &HistoryRow::step);
    };
    const auto x = row(a_), y = row(b_);
    if (x == a_.history.end() || y == b_.history.end()) return;
    q.numbers = {{"loss", x->loss, y->loss}, {"grad_norm", x->grad_norm, y->grad_norm}};
  }

  int verdict() {
    if (!differs_) {
      report_.say("verdict", "equal", "verdict: equal in everything that both have recorded");
      return exit_equal;
    }
    if (explained_ == Explained::yes) {
      report_.say("verdict", "explained",
                  "verdict: they differ by rounding: a different order of summation explains all "
                  "differences");
      return exit_equal;
    }
    report_.say(
        "verdict", "differ",
        explained_ == Explained::numbers_alone
            ? "verdict: they differ. Rounding explains loss and gradient norm; tensors could not "
              "be tested: that requires checkpoints of A and B at the same later step"
        : explained_ == Explained::no ? "verdict: they differ, and not by rounding alone"
                                      : "verdict: they differ");
    return exit_differ;
  }

  const CompareArguments& arguments_;
  Side a_, b_;
  ModelPlaces places_;
  Report report_;
  std::vector<std::string> settings_;
  bool compared_ = false, differs_ = false, rates_differ_ = false;
  std::int64_t first_ = 0;       // first step that differs in the tables; 0: none
  std::int64_t state_step_ = 0;  // step at which checkpoints of both sides differ; 0: none
  TensorDifferences state_, gradients_;
  std::optional<Explained> explained_;
};

int compare(const CompareArguments& a) {
  try {
    Comparison comparison(a);
    const int code = comparison.run();
    if (a.json)  // not with say(): JSON has its own escapes
      fmt::print("{}", comparison.report().json());
    else
      say("{}", comparison.report().text());
    flush_output();
    return code;
  } catch (const std::exception& e) {
    log_error("{}", error_text(e));
    return exit_trouble;
  }
}

}  // namespace

void add_compare(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "compare",
      "Find where two runs or checkpoints first differ, and test whether rounding explains it");
  auto a = std::make_shared<CompareArguments>();
  command->add_option("A", a->a, "First run directory or checkpoint to compare")
      ->required()
      ->transform(with_environment());
  command->add_option("B", a->b, "Second run directory or checkpoint to compare")
      ->required()
      ->transform(with_environment());
  command->add_flag("--json", a->json, "Print JSON instead of text");
  command->add_flag("--no-replay", a->no_replay,
                    "Compare only recorded data; do not repeat any training steps");
  command
      ->add_option("--replay-steps", a->replay_steps,
                   "Maximum number of training steps to repeat from a checkpoint to the first "
                   "difference (default: 100)")
      ->check(whole_number_from(1));
  command->footer(
      "Exit code: 0 if A and B are equal or differ only by rounding (the last line says which); 1 "
      "if they differ otherwise; 2 if they could not be compared.");
  command->callback([&chosen, a] { chosen = [a] { return compare(*a); }; });
}

}  // namespace trireme
