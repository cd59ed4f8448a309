#include "app/prepare.hpp"

#include <algorithm>
#include <utility>

#include "app/run_support.hpp"
#include "app/training_input.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/version.hpp"
#include "lib/comm/agree.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/data/same_files.hpp"
#include "lib/data/set_hashes.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/io/scores_file.hpp"
#include "lib/model/spec.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

CheckpointMeta meta_of(const Deck& deck, const TokenizerSpec& tokenizer,
                       const CheckpointReader* from) {
  CheckpointMeta meta;
  if (from) meta = from->meta();
  meta.seed = static_cast<std::uint64_t>(deck.train.seed);
  meta.model = dump_model(description_of(deck));
  meta.deck = dump_deck(deck);
  meta.version = version();
  if (!from) meta.run = random_id();
  meta.grid = grid_of(deck);
  meta.tokenizer_kind = name_of(tokenizer.kind);
  meta.tokenizer = tokenizer.bytes;
  meta.chat_template = tokenizer.chat;
  meta.vocab = deck.model.vocab;
  if (meta.step == 0) meta.extra.trained_tokens = 0;
  return meta;
}

Inputs inputs_of(Deck deck, const std::string& from, std::vector<RollbackRow> rollbacks) {
  const auto context = deck.data.context, vocab = deck.model.vocab;
  std::optional<CheckpointReader> reader;
  if (!from.empty()) reader.emplace(from);
  const auto* const begin = reader ? &*reader : nullptr;
  auto before = begin ? begin->meta() : CheckpointMeta{};
  continue_after_rollback(before, rollbacks);
  auto [training, history] = open_training(deck, before);
  auto validation = validation_data(deck.data, context, vocab);
  deck = with_tokens_for_epochs(std::move(deck), training.samples_per_epoch());
  require_objective(deck, training);
  for (const auto& v : validation) require_objective(deck, v.data);
  std::optional<ReferenceLosses> scores;
  std::string identity_of_scores;
  if (!deck.train.dpo_scores.empty()) {
    scores = scores_of(deck);
    training = training.with_reference(*scores);
    for (auto& v : validation) v.data = v.data.with_reference(*scores);
    identity_of_scores = scores_hash(*scores);
    scores->files.clear();  // the datasets have copied the scores that they need
  }
  // Before anything of the model's size is allocated.
  if (begin) require_model(*begin, make_spec(deck.model, deck.adapter));
  auto meta =
      meta_of(deck, tokenizer_of_run(deck, tokenizer_of_files(training, validation), begin), begin);
  meta.samples = before.samples;
  meta.extra.data_phases = to_text(history);
  const auto total = steps_of_run(deck.train, context, meta);
  return {std::move(deck),
          std::move(training),
          std::move(validation),
          std::move(reader),
          {},
          std::move(scores),
          std::move(identity_of_scores),
          std::move(meta),
          total,
          std::move(rollbacks)};
}

std::vector<TokenFile> files_of(const Inputs& in) {
  std::vector<TokenFile> files;
  for (const auto& range : in.training.ranges()) files.push_back(range.file);
  for (const auto& v : in.validation) {
    if (v.name.empty() && in.deck.data.validation_fraction > 0) continue;  // the training files
    for (const auto& range : v.data.ranges()) files.push_back(range.file);
  }
  return files;
}

// Warns if the token files differ from those of the checkpoint, or if the run cannot continue each
// of them where it stopped. Other files are not an error, because continued pre-training uses them.
void compare_tokens_with_checkpoint(Inputs& in) {
  const auto here = hash_of_files(in.training);
  auto& there = in.meta.extra.token_files;
  if (in.from) {
    const auto before = history_from(in.from->meta().extra.data_phases);
    const auto now = history_from(in.meta.extra.data_phases);
    const auto is_new = [&](std::int32_t file) {
      return std::ranges::count(before.files, now.files[static_cast<std::size_t>(file)]) == 0;
    };
    const auto& phase = in.training.phase_of(in.meta.samples);
    if (before.phases.empty() ? !there.empty() && there != here
                              : std::ranges::any_of(phase.files, is_new))
      log_warning(
          "the token files are not those that the checkpoint was trained on. From sample {} on, "
          "samples come from {}. Files that the run has not read begin with their first sample",
          in.meta.samples, in.training.text_of(phase));
    if (!before.phases.empty() && in.meta.samples > 0 && before.phases[0] != now.phases[0])
      log_warning(
          "before this checkpoint, the token files were mixed without data.weights, so it is "
          "unknown how much of each file was read. With the new files or weights, samples may be "
          "repeated");
  }
  there = here;
}

void compare_validation_with_checkpoint(Inputs& in) {
  auto& there = in.meta.extra.validation_sets;
  const auto here = hashes_of_sets(in.validation);
  if (!there.empty()) in.changed_sets = changed_sets(there, here);
  there = with_former_sets(here, there);
}

void compare_order_with_checkpoint(Inputs& in) {
  auto& there = in.meta.extra.order_of_few;
  const bool in_epoch =
      !in.deck.data.weights.empty() || in.meta.samples % in.training.samples_per_epoch() != 0;
  if (in.from && there.empty() && in_epoch && in.training.shuffles_few())
    log_warning(
        "the checkpoint is from an older version, which shuffled up to {} samples differently. In "
        "the rest of this epoch, some samples are repeated and others are left out",
        Permutation::few);
  there = "shuffled";
}

// Says why a table has no numbers of trained tokens.
void report_unknown_count(const Inputs& in) {
  if (!in.meta.extra.trained_tokens)
    log_info(
        "the checkpoint is from an older version, which did not count trained tokens: the column "
        "trained_tokens of history.csv stays empty");
}

// Throws Error if a run would resume with another reference model than it began with.
void compare_reference_with_checkpoint(Inputs& in) {
  auto& there = in.meta.extra.reference;
  if (traits_of(in.deck.train.objective).fixed != FixedModel::reference) {
    there.clear();
    return;
  }
  const auto here = in.scores ? in.scores->model : in.meta.extra.base;
  require(!in.from || there.empty() || there == here,
          "the reference model is not the one that the run began with: its weights have the hash "
          "{} instead of {} ({}). Set train.dpo_scores to the scores of that model, or start a new "
          "run with model.init_from",
          here, there,
          in.scores ? fmt::format("{} contains the scores of {}", in.scores->source,
                                  in.scores->checkpoint)
                    : "train.dpo_scores is not set");
  there = here;
  if (!in.scores) return;
  log_info("reference model: {}, with its log-probabilities in {} (computed in {})",
           in.scores->checkpoint, in.scores->source, in.scores->compute);
  if (in.fixed.initial && to_string(in.fixed.initial->identity_of_weights()) != here)
    log_info("the reference model and model.init_from have different weights");
}

// Throws SharedError unless all ranks read the same scores. The same path may lead to different
// copies.
void require_same_scores(const Communicator& world, const Inputs& in) {
  const auto all = world.all_gather(in.identity_of_scores);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw SharedError(fmt::format(
          "rank {} and rank 0 read different scores from {}: all ranks need the same file", r,
          in.scores->source));
}

// Copies settings of the initial model that are not weights. The settings that begin and end
// texts are copied only if the run uses that model's tokenizer or no tokenizer.
void keep_imported(Inputs& in) {
  if (in.from || !in.fixed.initial) return;
  const auto& theirs = in.fixed.initial->meta();
  in.meta.extra.imported = theirs.extra.imported;
  const bool same =
      in.meta.tokenizer_kind == theirs.tokenizer_kind && in.meta.tokenizer == theirs.tokenizer;
  if (same || in.meta.tokenizer_kind == name_of(TokenizerKind::none))
    in.meta.extra.generation = theirs.extra.generation;
}

// Throws SharedError if the ranks run on several kinds of machines and the results must not depend
// on the machine. Warns if a restart runs on another kind, which continues with other bits.
void compare_machines(const Communicator& world, Inputs& in, const BackendChoice& choice) {
  std::string kind;
  together(world, [&] { kind = machine_kind(choice); });
  const auto all = world.all_gather(kind);
  std::vector<std::string> kinds;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (std::ranges::count(kinds, all[r]) > 0) continue;
    kinds.push_back(all[r]);
    if (r > 0 && in.deck.run.exactness == Exactness::invariant)
      throw SharedError(fmt::format(
          "run.exactness = \"invariant\" needs CPUs of one kind, but rank 0 has {} and rank {} has "
          "{}. Request nodes of one kind (Slurm: --constraint), or set run.exactness = \"fast\"",
          all[0], r, all[r]));
  }
  const auto here = fmt::format("{}", fmt::join(kinds, " and "));
  auto& there = in.meta.extra.machine;
  if (in.from && !there.empty() && there != here && in.deck.run.exactness != Exactness::fast)
    log_warning(
        "the checkpoint was written on another kind of machine. From here on, results have the "
        "bits of {}, no longer those of {}",
        here, there);
  there = here;
}

}  // namespace

Inputs open_inputs(const Communicator& world, const Deck& given, const std::string& from,
                   const std::filesystem::path& run) {
  std::optional<CheckpointMeta> before;
  together(world, Pace::slow, [&] {
    if (!from.empty()) before = CheckpointReader(from).meta();
  });
  auto fixed = open_fixed_models(world, given, before ? &*before : nullptr, ModelUse::training);
  // The run of the checkpoint may have rolled back to it, and continued with later samples.
  std::vector<RollbackRow> rollbacks;
  together(world, Pace::slow, [&] {
    if (before) rollbacks = rollbacks_until(run, *before);
  });
  std::optional<Inputs> in;
  together(world, Pace::slow,
           [&] { in.emplace(inputs_of(with_paths_of(fixed, given), from, std::move(rollbacks))); });
  in->fixed = std::move(fixed);
  require_same_files(world, files_of(*in));
  together(world, Pace::slow, [&] {
    compare_tokens_with_checkpoint(*in);
    compare_validation_with_checkpoint(*in);
    compare_order_with_checkpoint(*in);
    report_unknown_count(*in);
    if (in->fixed.initial) compare_with_initial(in->deck, *in->fixed.initial);
    keep_imported(*in);
    if (in->deck.adapter.rank > 0)
      in->meta.extra.base = to_string(in->fixed.initial->identity_of_weights());
    compare_reference_with_checkpoint(*in);
    const auto& teacher = in->fixed.teacher;
    in->meta.extra.teacher = teacher ? to_string(teacher->identity_of_weights()) : "";
    if (teacher)
      require_tokens_of(teacher->meta(), teacher->directory().string(), in->training.tokenizer());
  });
  require_same_scores(world, *in);
  if (world.size() > 1) world.broadcast(in->meta.run);  // rank 0 chooses the identity of a new run
  return std::move(*in);
}

SkipRules skip_rules(const Inputs& in) {
  const auto& d = in.deck;
  const FreezeSchedule freeze(d.freeze, make_spec(d.model, d.adapter));
  auto conditions = fmt::format("{} {} {}", name_of(d.train.objective), d.data.context,
                                in.meta.extra.token_files);
  for (const double weight : d.data.loss_weights) conditions += fmt::format(" {}", weight);
  const auto ramp = ramp_after(in.meta, d.train, d.data.context);
  auto borders = freeze.borders(0, in.total_steps);
  for (const auto end : steps_of_decay_ends(d.schedule, ramp))  // where the learning rate jumps
    if (end > in.meta.step || in.meta.extra.ends_decay > 0) borders.push_back(end);
  for (const auto& border : borders_of_phases(d.data, d.train, in.meta))
    borders.push_back(border.step);
  return {d.train, ramp, std::move(conditions), std::move(borders), in.meta.extra.usual_steps};
}

Machine open_machine(const Communicator& world, Inputs& in, std::uint64_t rounding) {
  auto m =
      choose_machine(world, in.deck, in.fixed, ModelUse::training, in.training.document_weights());
  m.choice.rounding = rounding;
  m.input.setup.first_step = in.meta.step;
  compare_machines(world, in, m.choice);
  m.open(world);
  load_model(world, m, in.fixed, in.from ? &*in.from : nullptr, in.meta.seed);
  return m;
}

}  // namespace trireme
