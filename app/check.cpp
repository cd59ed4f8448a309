// The `trireme check DECK` command.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/fixed_models.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "app/settings_warnings.hpp"
#include "app/tokenizers.hpp"
#include "app/training_input.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/sizes.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/placement.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/launch/threads.hpp"
#include "lib/predict/machine_file.hpp"
#include "lib/run/run_length.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/train/optimizer.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

struct CheckArguments {
  DeckArguments deck;
  std::int64_t ranks = 0;          // 0: the ranks that run this command
  std::int64_t ranks_of_node = 0;  // 0: not given
  bool verify = false;
};

// Reads all token files completely and checks their contents.
void verify(const std::vector<TokenRange>& ranges) {
  for (const auto& range : ranges)
    if (range.file.verify() == Verified::ids_only)
      say("{} has no hash: checked only that its ids are in the vocabulary\n",
          range.file.path().string());
}

// Collects the errors of independent checks, so that all of them are reported at once.
class Findings {
 public:
  template <class Check>
  void look(Check&& check) {
    try {
      check();
    } catch (const Error& e) {
      if (std::ranges::find(texts_, e.what()) == texts_.end()) texts_.emplace_back(e.what());
    }
  }
  void throw_all() const { require(texts_.empty(), "{}", fmt::join(texts_, "\n")); }

 private:
  std::vector<std::string> texts_;
};

// Where the ranks of the checked run will be, if they are the ranks that run this command.
struct JobHere {
  int processors = 0;    // per rank; 0: the ranks will run elsewhere
  std::string not_even;  // error if nodes do not run equal numbers of consecutive ranks; else empty
};

// Prints what each phase reads, and how many samples its files have. A file of several phases
// continues, so the phases do not add up to epochs.
void say_phases(const Deck& deck, const Dataset& training) {
  for (const auto& part : extents_of_phases(deck.data, deck.train, {})) {
    const auto& phase = training.phase_of(part.first_sample);
    say("from step {}: {} from {}; {} {}\n", part.first_step + 1,
        counted(part.end_sample - part.first_sample, "sample"), training.text_of(phase),
        phase.files.size() == 1 ? "this file contains" : "these files contain",
        counted(training.samples_of(phase), "sample"));
  }
}

// Checks the deck and its files, and whether the model of one rank fits into this machine's memory.
void check(const CheckArguments& a, const JobHere& job) {
  const auto given = load_deck(a.deck.path, a.deck.overrides);
  Findings found;
  // If a token file cannot be read, the vocabulary is assumed to be larger than any readable file
  // needs, so that later checks do not fail for the same cause.
  std::int64_t vocab = given.model.vocab > 0 ? 0 : std::int64_t{1} << 32;
  found.look([&] { vocab = vocabulary_of(given.data, given.model.vocab); });
  auto resolved = given;
  found.look([&] {
    require(!given.zero.copy_each_node || job.not_even.empty(), "{}", job.not_even);
    resolved = resolve(given, {a.ranks, a.ranks_of_node, vocab});
  });
  resolved.model.vocab = std::max(resolved.model.vocab, vocab);
  auto deck = std::move(resolved);
  found.look([&] { FreezeSchedule(deck.freeze, make_spec(deck.model, deck.adapter)); });
  found.look([&] { require_countable(deck.train, deck.data.context, {}); });
  found.look([&] {
    if (!deck.run.machine.empty()) static_cast<void>(load_machine(deck.run.machine));
  });
  std::optional<Dataset> training;
  std::vector<ValidationData> validation;
  found.look([&] {
    training.emplace(training_data_of(deck));
    deck = with_tokens_for_epochs(std::move(deck), training->samples_per_epoch());
  });
  found.look([&] { validation = validation_data(deck.data, deck.data.context, deck.model.vocab); });
  const auto look_at = [&](const Dataset& data, const std::string& set) {
    found.look([&] {
      require_objective(deck, data);
      static_cast<void>(with_scores(deck, data));
      log_packing(data, set);
      log_cut_documents(data);
    });
  };
  if (training) look_at(*training, "training");
  for (const auto& v : validation) look_at(v.data, v.label());
  found.throw_all();
  const auto tokenizer = tokenizer_of_files(*training, validation);
  if (a.verify) {
    verify(training->ranges());
    for (const auto& v : validation) verify(v.data.ranges());
  }
  const auto choice = backend_choice(deck, {});
  const auto fixed = open_fixed_models({}, deck, nullptr, ModelUse::training);
  for (const auto* reader : {fixed.initial.get(), fixed.teacher.get()})
    if (reader) require_tokens_of(reader->meta(), reader->directory().string(), tokenizer);
  const auto compute = usable_compute(choice, deck.precision.compute);
  warn_of_slow_products(choice, compute);
  if (job.processors > 0) warn_of_threads(choice, job.processors);
  warn_of_settings(deck, {}, &*training);
  if (fixed.initial) warn_of_initial_optimizer(deck, *fixed.initial);
  auto target = dry_target(choice);
  const auto here = target.capacity;
  target.capacity = std::size_t{1} << 60;  // the run may be elsewhere, so check only warns
  const auto input = plan_input_of(deck, compute, transport_of(deck, choice), fixed.teacher_model,
                                   training->document_weights());
  const auto plan = make_plan(input, target);
  say("{} is valid{}: {}, {}, {} of memory reserved per rank\n", a.deck.path,
      a.ranks > 1 ? " on " + describe(grid_of(deck)) : "",
      parameters_text(make_spec(deck.model, deck.adapter), deck.freeze, 0),
      training->has_one_phase()
          ? counted(training->samples_per_epoch(), "sample") +
                (training->has_common_epochs() ? " per epoch" : " in all files")
          : counted(1 + deck.data.phases.size(), "data phase"),
      memory_text(static_cast<double>(plan.most_reserved())));
  const auto matrices =
      matrices_text(make_spec(deck.model, deck.adapter), deck.optimizer, deck.freeze, 0);
  if (!matrices.empty()) say("{}\n", matrices);
  if (!training->has_one_phase()) say_phases(deck, *training);
  if (deck.adapter.rank > 0)
    say("adapters: {}\n", adapters_text(make_spec(deck.model, deck.adapter)));
  if (plan.most_reserved() > here)
    log_warning("{} has {:.2f} GiB of memory, but at least one rank of this run reserves more",
                host_name(), static_cast<double>(here) / (1 << 30));
}

// Checks the deck for the ranks that a launcher started, unless the arguments ask for another
// number of ranks.
int check_on(const Communicator& world, CheckArguments a) {
  JobHere job;
  if (a.ranks == 0 || a.ranks == world.size()) {
    job.processors = launch::processors_of_rank(world);
    a.ranks = world.size();
    try {
      if (a.ranks > 1 && a.ranks_of_node == 0) a.ranks_of_node = placement_of(world).ranks_of_node;
    } catch (const SharedError& e) {
      job.not_even = e.what();
    }
  }
  at_root(world, Pace::slow, [&] { check(a, job); });
  return 0;
}

}  // namespace

void add_check(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "check", "Check a deck, its input files and its memory requirements without training");
  auto a = std::make_shared<CheckArguments>();
  add_deck_arguments(*command, a->deck);
  add_ranks(*command, a->ranks);
  add_ranks_of_node(*command, a->ranks_of_node);
  command->add_flag("--verify", a->verify,
                    "Read all token files completely and verify their hashes");
  command->callback([&chosen, a] {
    chosen = [a] {
      return on_all_ranks(
          fmt::format("check {} {} {} {}", a->deck.path, fmt::join(a->deck.overrides, " "),
                      a->ranks, a->ranks_of_node),
          [&](const Communicator& world) { return check_on(world, *a); });
    };
  });
}

}  // namespace trireme
