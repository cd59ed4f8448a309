#include "app/loaded_model.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "app/initial_weights.hpp"
#include "app/launch.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/ids_tokenizer.hpp"
#include "lib/train/state.hpp"

namespace trireme {

std::string ModelArguments::text() const {
  return fmt::format("{} {} --base '{}' --backend '{}' --threads {}", checkpoint,
                     fmt::join(overrides, " "), base, backend, threads);
}

void add_model_arguments(CLI::App& command, ModelArguments& a, const std::string& more_keys) {
  command
      .add_option("checkpoint", a.checkpoint,
                  "Checkpoint, or run directory (uses its newest intact checkpoint)")
      ->required()
      ->transform(with_environment());
  command.add_option("overrides", a.overrides,
                     "Values that replace those in the checkpoint's deck, as section.key=value "
                     "(sections: parallel, zero, precision, run" +
                         (more_keys.empty() ? "" : "; keys: " + more_keys) + ")");
  command
      .add_option(
          "--base", a.base,
          "For a LoRA adapter: checkpoint of its base model (default: model.init_from in the "
          "adapter's deck)")
      ->transform(with_environment());
  command.add_option("--backend", a.backend,
                     "Backend: auto, host (CPU) or cuda (default: run.backend in the deck)");
  command
      .add_option("--threads", a.threads,
                  "Number of threads per rank (default: run.threads in the deck)")
      ->check(CLI::Range(0, 4096));
}

// Keys outside of the machine's sections that `evaluate` may override.
static std::vector<std::string> evaluated_keys() {
  std::vector<std::string> keys{"data.packing=", "data.attention=", "data.long_documents=",
                                "data.separator_masks=", "train.objective="};
  for (const auto& key : objective_keys()) keys.push_back(fmt::format("train.{}=", key.name));
  return keys;
}

static void require_machine_keys(const std::vector<std::string>& overrides,
                                 std::span<const std::string> more) {
  constexpr std::array<std::string_view, 4> sections{"parallel.", "zero.", "precision.", "run."};
  const auto more_text = more.empty() ? "" : fmt::format(", and also {}", fmt::join(more, ", "));
  for (const auto& o : overrides) {
    const auto begins = [&](auto s) { return o.starts_with(s); };
    require(std::ranges::any_of(sections, begins) || std::ranges::any_of(more, begins),
            "override '{}': the checkpoint determines this value. You can override only keys of "
            "[parallel], [zero], [precision] and [run]{}",
            o, more_text);
  }
}

// Returns the checkpoint's deck with the arguments applied. The deck is not yet resolved for
// `ranks` ranks.
static Deck deck_for(const CheckpointReader& reader, const ModelArguments& a, LossesAre losses,
                     const DeckChange& change, int ranks) {
  require_machine_keys(a.overrides, change ? evaluated_keys() : std::vector<std::string>());
  auto deck = deck_of(reader);
  if (change) change(deck);
  if (!a.base.empty()) deck.init_from = std::filesystem::absolute(a.base).string();
  if (!a.backend.empty()) deck.run.backend = a.backend;
  if (a.threads > 0) deck.run.threads = a.threads;
  // Losses of samples are not summed over ranks, so exact_chunk need not divide their tokens.
  if (losses == LossesAre::of_samples && deck.run.exactness == Exactness::invariant)
    deck.run.exactness = Exactness::repeatable;
  deck = on_one_rank(std::move(deck));
  if (ranks == 1 && a.overrides.empty()) return deck;
  deck.parallel.data = 0;
  // The run's batch does not matter here, but a batch must divide over the ranks.
  deck.train.batch = deck.train.microbatch * ranks;
  return with_overrides(std::move(deck), a.overrides);
}

LoadedModel::LoadedModel(const Communicator& world, const std::filesystem::path& checkpoint,
                         const ModelArguments& a, LossesAre losses, const DeckChange& change) {
  together(world, Pace::slow, [&] {
    reader_ = std::make_unique<CheckpointReader>(checkpoint);
    deck_ = deck_for(*reader_, a, losses, change, world.size());
    require_model(*reader_, make_spec(deck_.model, deck_.adapter));
    require(a.base.empty() || deck_.adapter.rank > 0,
            "--base applies only to adapters, and {} has none: it is a complete model",
            checkpoint.string());
  });
  if (deck_.adapter.rank > 0)
    base_ = std::make_unique<CheckpointReader>(open_adapter_base(world, deck_, &reader_->meta()));
  deck_ = resolve_here(std::move(deck_), world, 0);
  world.configure({.hang_timeout = deck_.run.hang_timeout, .check_labels = deck_.run.debug});
  machine_ = choose_machine(world, deck_);
  auto& input = machine_.input;
  input.setup.trainable = false;
  input.evaluation = PlanEvaluation::included;  // the memory of an evaluation, which follows
  if (losses == LossesAre::of_samples) {
    input.evaluation = PlanEvaluation::left_out;
    input.setup.exact_chunk = 0;
  }
  machine_.open(world);
  together(world, Pace::slow, [&] {
    if (base_) load_base(trainer().store(), *base_);
    load_weights(trainer().store(), *reader_);
  });
}

std::unique_ptr<LoadedModel> LoadedModel::open(const Communicator& world, const ModelArguments& a,
                                               LossesAre losses, const DeckChange& change) {
  CheckpointChoice choice(a.checkpoint);
  while (true) {
    std::string checkpoint;
    at_root(world, [&] { checkpoint = choice.find().string(); });
    world.broadcast(checkpoint);
    try {
      return std::make_unique<LoadedModel>(world, checkpoint, a, losses, change);
    } catch (const SharedError& e) {
      std::string another;
      at_root(world, Pace::slow, [&] {
        if (choice.reject(checkpoint, e.what())) another = "yes";
      });
      world.broadcast(another);
      if (another.empty()) throw;
    }
  }
}

std::vector<std::int32_t> LoadedModel::ends(const Tokenizer& tokenizer,
                                            const std::string& checkpoint) const {
  auto ends = tokenizer.ends();
  const auto& generation = meta().extra.generation;
  if (generation.empty()) return ends;
  const auto where = checkpoint + ": its generation_config.json";
  for (const auto id : end_ids_in(parse_object(generation, where), where))
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  return ends;
}

std::unique_ptr<Tokenizer> LoadedModel::tokenizer(const std::string& checkpoint) const {
  const auto& name = meta().tokenizer_kind;
  if (name.empty() || name == name_of(TokenizerKind::none))
    return ids_tokenizer(static_cast<std::int32_t>(deck().model.vocab), checkpoint);
  const auto kind = kind_named(name);
  require(kind != TokenizerKind::none,
          "{} contains a tokenizer of the kind {}, which this version of trireme does not support",
          checkpoint, name);
  return make_tokenizer({kind, meta().tokenizer}, checkpoint);
}

}  // namespace trireme
