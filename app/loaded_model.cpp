#include "app/loaded_model.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "app/best_checkpoint.hpp"
#include "app/launch.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/table.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/ids_tokenizer.hpp"
#include "lib/train/state.hpp"

namespace trireme {

std::string ModelArguments::text() const {
  return fmt::format("{} {} --base '{}' --backend '{}' --threads {}{}{}", checkpoint,
                     fmt::join(overrides, " "), base, backend, threads, best ? " --best" : "",
                     ema ? " --ema" : "");
}

void add_model_arguments(CLI::App& command, ModelArguments& a, const std::string& more_keys) {
  command
      .add_option("checkpoint", a.checkpoint,
                  "Checkpoint, or run directory (uses its newest intact checkpoint)")
      ->required()
      ->transform(with_environment());
  add_best(command, a.best);
  add_ema(command, a.ema);
  command.add_option("overrides", a.overrides,
                     "Values that replace those in the checkpoint's deck, as section.key=value "
                     "(sections: parallel, zero, precision, run" +
                         (more_keys.empty() ? "" : "; keys: " + more_keys) + ")");
  command
      .add_option("--base", a.base,
                  "For an adapter: checkpoint of its base model (default: model.init_from in the "
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
  std::vector<std::string> keys{"data.packing", "data.attention", "data.long_documents",
                                "data.separator_masks", "train.objective"};
  for (const auto& key : objective_keys()) keys.push_back(fmt::format("train.{}", key.name));
  return keys;
}

// Keys that do not exist pass, because with_overrides() refuses them with the nearest key.
static void require_machine_keys(const std::vector<std::string>& overrides,
                                 std::span<const std::string> more) {
  constexpr std::array<std::string_view, 4> sections{"parallel", "zero", "precision", "run"};
  const auto more_text = more.empty() ? "" : fmt::format(", and also {}", fmt::join(more, ", "));
  for (const auto& o : overrides) {
    const auto path = overridden_key(o);
    const auto* const key = find_key(path);
    require(!key || std::ranges::find(sections, key->section) != sections.end() ||
                std::ranges::find(more, path) != more.end(),
            "override '{}': the checkpoint determines this value. You can override only keys of "
            "[parallel], [zero], [precision] and [run]{}",
            o, more_text);
  }
}

// Returns the checkpoint's deck with the arguments applied. The deck is not yet resolved for
// `ranks` ranks.
static Deck deck_for(const CheckpointReader& reader, const ModelArguments& a, ModelUse use,
                     const DeckChange& change, int ranks) {
  require_machine_keys(a.overrides, change ? evaluated_keys() : std::vector<std::string>());
  auto deck = with_base(deck_of(reader), a.base);
  if (change) deck = change(std::move(deck));
  if (!a.backend.empty()) deck.run.backend = a.backend;
  if (a.threads > 0) deck.run.threads = a.threads;
  // Losses of samples are not summed over ranks, so exact_chunk need not divide their tokens.
  if (use == ModelUse::generation && deck.run.exactness == Exactness::invariant)
    deck.run.exactness = Exactness::repeatable;
  deck = on_one_rank(std::move(deck));
  if (ranks == 1 && a.overrides.empty()) return deck;
  deck.parallel.data = 0;
  // The run's batch does not matter here, but a batch must divide over the ranks.
  deck.train.batch = deck.train.microbatch * ranks;
  deck.train.batch_ramp.clear();
  return with_overrides(std::move(deck), a.overrides);
}

// Opens one checkpoint. Collective.
static std::unique_ptr<LoadedModel> open_checkpoint(const Communicator& world,
                                                    const std::filesystem::path& checkpoint,
                                                    const ModelArguments& a, ModelUse use,
                                                    const DeckChange& change) {
  std::unique_ptr<CheckpointReader> reader;
  Deck as_given;
  together(world, Pace::slow, [&] {
    reader = std::make_unique<CheckpointReader>(checkpoint, weights_read(a.ema));
    as_given = deck_for(*reader, a, use, change, world.size());
    require_model(*reader, make_spec(as_given.model, as_given.adapter));
    require(a.base.empty() || as_given.adapter.rank > 0,
            "--base applies only to adapters, and {} has none: it is a complete model",
            checkpoint.string());
  });
  auto fixed = open_fixed_models(world, as_given, &reader->meta(), use);
  const auto deck = resolve_here(with_paths_of(fixed, std::move(as_given)), world, 0);
  world.configure({.hang_timeout = deck.run.hang_timeout, .check_labels = deck.run.debug});
  auto machine = choose_machine(world, deck, fixed, use);
  machine.open(world);
  load_model(world, machine, fixed, reader.get(), 0);
  return std::make_unique<LoadedModel>(std::move(reader), deck, std::move(machine));
}

std::unique_ptr<LoadedModel> LoadedModel::open(const Communicator& world, const ModelArguments& a,
                                               ModelUse use, const DeckChange& change) {
  std::string given = a.checkpoint;
  if (a.best)
    at_root(world, Pace::slow, [&] { given = best_checkpoint(a.checkpoint, a.ema).string(); });
  world.broadcast(given);
  CheckpointChoice choice(given);
  while (true) {
    std::string checkpoint;
    at_root(world, [&] { checkpoint = choice.find().string(); });
    world.broadcast(checkpoint);
    try {
      return open_checkpoint(world, checkpoint, a, use, change);
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
