#include "app/run_support.hpp"

#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/data/dataset.hpp"
#include "lib/deck/value.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/launch/devices.hpp"
#include "lib/launch/threads.hpp"
#include "lib/train/state.hpp"

namespace trireme {

CLI::Validator with_environment() {
  return {[](std::string& text) {
            try {
              text = expand_environment(text);
              return std::string();
            } catch (const Error& e) {
              return std::string(e.what());
            }
          },
          ""};
}

void add_deck_arguments(CLI::App& command, DeckArguments& a) {
  command.add_option("deck", a.path, "the deck (TOML)")->required()->transform(with_environment());
  command.add_option("overrides", a.overrides, "section.key=value, any number of them");
}

Deck with_vocab(Deck deck) {
  const auto needed = vocabulary_of(deck.data);
  if (deck.model.vocab == 0) deck.model.vocab = needed;
  require(deck.model.vocab >= needed,
          "model.vocab = {} is smaller than the vocabulary {} of the token files: leave it out, or "
          "tokenize with the model's tokenizer",
          deck.model.vocab, needed);
  return deck;
}

BackendChoice backend_choice(const Deck& d, const Communicator& world) {
  BackendChoice c{.name = d.run.backend,
                  .threads = launch::threads_of_rank(d.run.threads, world),
                  .debug = d.run.debug};
  together(world, [&] { c.name = decide_backend(c.name); });
  const auto names = world.all_gather(c.name);
  together(world, [&] {
    launch::require_one_backend(names);
    require(d.run.exactness != Exactness::invariant || c.name != "cuda",
            "run.exactness = \"invariant\" is for the backends host and ref, and run.backend = "
            "\"{}\" means a GPU: give run.backend = \"host\"",
            d.run.backend);
  });
  together(world, [&] {
    require(d.run.replay_every == 0 || d.run.exactness != Exactness::fast || c.name != "cuda",
            "run.replay_every compares bits, which a GPU repeats with run.exactness = "
            "\"repeatable\" alone: give that");
  });
  c.bits = d.run.exactness == Exactness::fast ? CudaBits::fast : CudaBits::repeatable;
  c.tf32 = d.precision.tf32;
  return c;
}

DType usable_compute(const BackendChoice& choice, DType wanted) {
  const auto usable = compute_type(choice, wanted);
  if (usable != wanted)
    log_warning("this processor cannot multiply {}: computing in {}", name_of(wanted),
                name_of(usable));
  return usable;
}

TransportKind transport_of(const Deck& d, const BackendChoice& choice) {
  const bool device =
      choice.name == "cuda" && !d.run.share_gpu && !transport::nccl_library().empty();
  return device ? TransportKind::device : TransportKind::host;
}

TrainerSetup trainer_setup(const Deck& d, DType compute) {
  TrainerSetup s;
  s.model = d.model;
  s.optimizer = d.optimizer;
  s.zero = d.zero;
  s.freeze = d.freeze;
  s.stage_layers = d.parallel.stage_layers;
  s.compute = compute;
  s.reduce = d.precision.reduce;
  s.seed = static_cast<std::uint64_t>(d.train.seed);
  s.exact_chunk = exact_chunk(d);
  s.check_memory = d.run.replay_every > 0;
  s.graphs = d.run.cuda_graph;
  return s;
}

PlanInput plan_input(const Deck& d, DType compute, TransportKind transport) {
  return {trainer_setup(d, compute),
          d.train,
          grid_of(d),
          d.data.has_validation() ? PlanEvaluation::included : PlanEvaluation::left_out,
          transport,
          {},
          d.checkpoint.async ? PlanSnapshot::included : PlanSnapshot::left_out};
}

Grid grid_of(const Deck& d) {
  return {static_cast<int>(d.parallel.pipe), static_cast<int>(d.parallel.data),
          static_cast<int>(d.parallel.seq)};
}

Deck on_one_rank(Deck d) {
  d.parallel = {};
  d.zero = {};
  d.run.trace_ranks = {};  // of another grid
  return fit_to_ranks(std::move(d), 1);
}

std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / manifest_name)) return path;
  require(!std::filesystem::exists(path / shard_name(0)),
          "{} is damaged: {} is missing -- `trireme inspect {} --repair` makes it again",
          path.string(), manifest_name, path.string());
  require(std::filesystem::is_directory(path / "checkpoints"),
          "{} is neither a checkpoint (no {}) nor a run directory (no checkpoints)", path.string(),
          manifest_name);
  const auto newest = newest_intact(path / "checkpoints", Check::sizes);
  for (const auto& reason : newest.skipped) log_warning("skipped: {}", reason);
  require(newest.found.has_value(), "{} holds no intact checkpoint",
          (path / "checkpoints").string());
  return newest.found->directory;
}

LoadedModel::LoadedModel(const std::filesystem::path& checkpoint, const std::string& backend,
                         std::int64_t threads)
    : reader_(checkpoint),
      deck_(parse_deck(reader_.meta().deck, (reader_.directory() / "deck").string())) {
  if (!backend.empty()) deck_.run.backend = backend;
  if (threads > 0) deck_.run.threads = threads;
  deck_ = on_one_rank(std::move(deck_));
  deck_.model.vocab = reader_.meta().vocab;
  auto choice = backend_choice(deck_, axes_.world);
  choice.device = launch::gpu_of_rank(choice.name == "cuda", deck_.run.share_gpu, axes_.world);
  backend_ = open_backend(choice);
  workspace_ = std::make_unique<Workspace>(*backend_);
  auto setup = trainer_setup(deck_, usable_compute(choice, deck_.precision.compute));
  setup.trainable = false;
  trainer_ = std::make_unique<Trainer>(*backend_, axes_, std::move(setup));
  load_weights(trainer_->store(), reader_);
}

std::unique_ptr<LoadedModel> LoadedModel::open(const std::filesystem::path& path,
                                               const std::string& backend, std::int64_t threads) {
  constexpr int tries = 10;
  for (int i = 1;; ++i) {
    const auto checkpoint = find_checkpoint(path);
    try {
      return std::make_unique<LoadedModel>(checkpoint, backend, threads);
    } catch (const Error&) {
      if (i == tries || std::filesystem::exists(checkpoint / manifest_name)) throw;
    }
    log_info("{} was removed meanwhile: looking for a newer one", checkpoint.string());
  }
}

}  // namespace trireme
