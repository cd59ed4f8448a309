#include "app/prepare.hpp"

#include <random>

#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/devices.hpp"
#include "lib/comm/nccl.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/train/loop.hpp"
#include "lib/train/state.hpp"

namespace trireme {

bool Prepared::finished() const {
  return from && meta.step >= steps_of_run(deck.train, deck.model.context, meta);
}

namespace {

// Tells files of different runs apart.
std::string new_run_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

CheckpointMeta meta_of(const Deck& deck, const Dataset& data, const CheckpointReader* from) {
  CheckpointMeta meta;
  if (from) meta = from->meta();
  const auto tokenizer = data.tokenizer();
  meta.seed = static_cast<std::uint64_t>(deck.train.seed);
  meta.deck = dump_deck(deck);
  meta.version = version();
  if (!from) meta.run = new_run_id();
  meta.pipe = static_cast<int>(deck.parallel.pipe);
  meta.data = static_cast<int>(deck.parallel.data);
  meta.seq = static_cast<int>(deck.parallel.seq);
  meta.tokenizer_kind = name_of(tokenizer.kind);
  meta.tokenizer = tokenizer.bytes;
  meta.vocab = deck.model.vocab;
  return meta;
}

// Data and where training goes on.
Prepared open_inputs(Deck deck, const std::string& from) {
  const auto& m = deck.model;
  Prepared p{
      deck,
      training_data(deck.data, m.context, m.vocab, static_cast<std::uint64_t>(deck.train.seed)),
      validation_data(deck.data, m.context, m.vocab),
      from.empty() ? std::nullopt : std::optional<CheckpointReader>(from),
      {},
      {},
      {},
      {},
      {},
      {},
      {}};
  p.meta = meta_of(deck, p.training, p.from ? &*p.from : nullptr);
  return p;
}

// The model and its state.
void open_model(Prepared& p) {
  p.workspace = std::make_unique<Workspace>(*p.backend);
  auto setup = trainer_setup(p.deck, p.compute);
  setup.first_step = p.meta.step;
  p.trainer = std::make_unique<Trainer>(*p.backend, p.axes, std::move(setup));
  auto& store = p.trainer->store();
  if (p.from) {
    load_state(store, *p.from, p.trainer->standings());
  } else if (const auto& init_from = p.deck.model.init_from; !init_from.empty()) {
    CheckpointReader weights(find_checkpoint(init_from));
    load_weights(store, weights);
    log_info("weights from {}", weights.directory().string());
  } else {
    store.initialize(p.meta.seed, p.choice.threads);
  }
}

// The compute type of the deck, or what the machines of all ranks have instead.
DType agreed_compute(const Communicator& world, const BackendChoice& choice, DType wanted) {
  DType usable{};
  together(world, [&] { usable = usable_compute(choice, wanted); });
  double wider = usable != wanted;
  world.all_reduce_max({&wider, 1});
  if (wider == 0 || usable != wanted) return usable;
  log_warning("the processor of another rank cannot multiply {}: computing in {}", name_of(wanted),
              name_of(wide(wanted)));
  return wide(wanted);
}

}  // namespace

Prepared prepare(const Communicator& world, Deck deck, const std::string& from) {
  std::optional<Prepared> p;
  together(world, [&] { p.emplace(open_inputs(std::move(deck), from)); });
  if (world.size() > 1) world.broadcast(p->meta.run);  // a new run's identity is rank 0's
  if (p->finished()) return std::move(*p);
  p->choice = backend_choice(p->deck, world);
  p->choice.device = gpu_of_rank(p->choice.name == "cuda", p->deck.run.share_gpu, world);
  p->compute = agreed_compute(world, p->choice, p->deck.precision.compute);
  p->axes = make_axes(world, grid_of(p->deck), shard_ranks(p->deck.zero, grid_of(p->deck)));
  together(world, [&] { p->backend = open_backend(p->choice); });
  if (wires_of(p->deck, p->choice) == Wires::device) connect(p->axes, nccl_wire);
  together(world, [&] { open_model(*p); });
  return std::move(*p);
}

}  // namespace trireme
