#include "app/loaded_model.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "app/node_shards.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/data/ids_tokenizer.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/launch/devices.hpp"
#include "lib/train/state.hpp"

namespace trireme {

std::string ModelArguments::text() const {
  return fmt::format("{} {} --backend '{}' --threads {}", checkpoint, fmt::join(overrides, " "),
                     backend, threads);
}

void add_model_arguments(CLI::App& command, ModelArguments& a) {
  command.add_option("checkpoint", a.checkpoint, "a checkpoint or run directory")
      ->required()
      ->transform(with_environment());
  command.add_option("overrides", a.overrides,
                     "section.key=value of [parallel], [zero], [precision] or [run]");
  command.add_option("--backend", a.backend, "as run.backend (default: the deck's)");
  command.add_option("--threads", a.threads, "as run.threads (default: the deck's)")
      ->check(CLI::Range(0, 4096));
}

static void require_machine_keys(const std::vector<std::string>& overrides) {
  constexpr std::array<std::string_view, 4> sections{"parallel.", "zero.", "precision.", "run."};
  for (const auto& o : overrides)
    require(std::ranges::any_of(sections, [&](auto s) { return o.starts_with(s); }),
            "override '{}': a trained model is what its checkpoint says; keys of [parallel], "
            "[zero], [precision] and [run] say how it is computed",
            o);
}

// The checkpoint's deck for `ranks` ranks.
static Deck deck_for(const CheckpointReader& reader, const ModelArguments& a, LossesAre losses,
                     int ranks) {
  require_machine_keys(a.overrides);
  auto deck = deck_of(reader);
  if (!a.backend.empty()) deck.run.backend = a.backend;
  if (a.threads > 0) deck.run.threads = a.threads;
  // No sum is over ranks then, so that no chunk must divide their tokens.
  if (losses == LossesAre::of_samples && deck.run.exactness == Exactness::invariant)
    deck.run.exactness = Exactness::repeatable;
  deck = on_one_rank(std::move(deck));
  if (ranks == 1 && a.overrides.empty()) return deck;
  deck.parallel.data = 0;
  // What the run's steps were of says nothing here.
  deck.train.batch = deck.train.microbatch * ranks;
  const auto name = deck.name;
  deck = fit_to_ranks(parse_deck(dump_deck(deck), name, a.overrides), ranks);
  deck.name = name;
  return deck;
}

// Before anything is taken. The ranks of a node share its memory; those with a device have one
// each.
static void require_memory(const Communicator& world, const Deck& deck, const BackendChoice& choice,
                           DType compute, LossesAre losses) {
  double needed = 0, capacity = 0;
  bool shared = true;
  together(world, [&] {
    auto target = dry_target(choice);
    capacity = static_cast<double>(std::exchange(target.capacity, std::size_t{1} << 60));
    shared = target.properties.host_readable;
    auto input = plan_input(deck, compute, transport_of(deck, choice));
    input.evaluation = losses == LossesAre::of_run ? PlanEvaluation::included  // of what follows
                                                   : PlanEvaluation::left_out;
    needed =
        static_cast<double>(reserved_untrained(std::move(input), std::move(target), world.rank()));
  });
  if (shared) world.node().all_reduce({&needed, 1});
  together(world, [&] {
    require(needed <= capacity,
            "{} would reserve {:.2f} GiB for this model, and {} has {:.2f} GiB: take more {}",
            world.size() == 1 ? "this program"
            : shared          ? "the ranks of a node"
                              : "a rank",
            needed * 0x1p-30, host_name(), capacity * 0x1p-30, shared ? "nodes" : "ranks");
  });
}

LoadedModel::LoadedModel(const Communicator& world, const std::filesystem::path& checkpoint,
                         const ModelArguments& a, LossesAre losses) {
  together(world, Pace::slow, [&] {
    reader_ = std::make_unique<CheckpointReader>(checkpoint);
    deck_ = deck_for(*reader_, a, losses, world.size());
    require_model(*reader_, make_spec(deck_.model));
  });
  deck_ = with_shard_number_here(std::move(deck_), world);
  world.configure({.hang_timeout = deck_.run.hang_timeout, .check_labels = deck_.run.debug});
  auto choice = backend_choice(deck_, world);
  choice.device = launch::gpu_of_rank(choice.name == "cuda", deck_.run.share_gpu, world);
  const auto compute = agreed_compute(world, choice, deck_.precision.compute);
  require_memory(world, deck_, choice, compute, losses);
  const auto grid = grid_of(deck_);
  axes_ = make_axes(world, grid, shard_ranks(deck_.zero, grid));
  // A backend takes what is free of its device then.
  if (transport_of(deck_, choice) == TransportKind::device)
    connect(axes_, transport::nccl_on(choice.device));
  together(world, [&] { backend_ = open_backend(choice); });
  together(world, Pace::slow, [&] {
    workspace_ = std::make_unique<Workspace>(*backend_);
    auto setup = trainer_setup(deck_, compute);
    setup.trainable = false;
    if (losses == LossesAre::of_samples) setup.exact_chunk = 0;
    trainer_ = std::make_unique<Trainer>(*backend_, axes_, std::move(setup));
    load_weights(trainer_->store(), *reader_);
  });
}

std::unique_ptr<LoadedModel> LoadedModel::open(const Communicator& world, const ModelArguments& a,
                                               LossesAre losses) {
  constexpr int tries = 10;
  for (int i = 1;; ++i) {
    std::string checkpoint;
    at_root(world, [&] { checkpoint = find_checkpoint(a.checkpoint).string(); });
    world.broadcast(checkpoint);
    try {
      return std::make_unique<LoadedModel>(world, checkpoint, a, losses);
    } catch (const SharedError&) {
      std::string gone;
      if (world.rank() == 0 && i < tries &&
          !std::filesystem::exists(std::filesystem::path(checkpoint) / manifest_name))
        gone = "yes";
      world.broadcast(gone);
      if (gone.empty()) throw;
    }
    log_info("{} was removed meanwhile: looking for a newer one", checkpoint);
  }
}

std::unique_ptr<Tokenizer> LoadedModel::tokenizer(const std::string& checkpoint) const {
  const auto& name = meta().tokenizer_kind;
  if (name.empty() || name == name_of(TokenizerKind::none))
    return ids_tokenizer(static_cast<std::int32_t>(deck().model.vocab), checkpoint);
  const auto kind = kind_named(name);
  require(kind != TokenizerKind::none,
          "{} holds a tokenizer of the kind {}, which this build does not know", checkpoint, name);
  return make_tokenizer(TokenizerSpec{kind, meta().tokenizer}, checkpoint);
}

}  // namespace trireme
