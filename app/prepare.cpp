#include "app/prepare.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/hash.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/version.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/data/same_files.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/launch/devices.hpp"
#include "lib/model/spec.hpp"
#include "lib/run/loop.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

CheckpointMeta meta_of(const Deck& deck, const TokenizerSpec& tokenizer,
                       const CheckpointReader* from) {
  CheckpointMeta meta;
  if (from) meta = from->meta();
  meta.seed = static_cast<std::uint64_t>(deck.train.seed);
  meta.deck = dump_deck(deck);
  meta.version = version();
  if (!from) meta.run = random_id();
  meta.pipe = static_cast<int>(deck.parallel.pipe);
  meta.data = static_cast<int>(deck.parallel.data);
  meta.seq = static_cast<int>(deck.parallel.seq);
  meta.tokenizer_kind = name_of(tokenizer.kind);
  meta.tokenizer = tokenizer.bytes;
  meta.vocab = deck.model.vocab;
  return meta;
}

Inputs inputs_of(Deck deck, const std::string& from) {
  const auto& m = deck.model;
  auto training =
      training_data(deck.data, m.context, m.vocab, static_cast<std::uint64_t>(deck.train.seed));
  auto validation = validation_data(deck.data, m.context, m.vocab);
  std::optional<CheckpointReader> reader;
  if (!from.empty()) {
    reader.emplace(from);
    require_model(*reader, make_spec(m));  // before anything of that size is made
  }
  const auto* const begin = reader ? &*reader : nullptr;
  auto meta =
      meta_of(deck, tokenizer_of_run(deck, tokenizer_of_files(training, validation), begin), begin);
  const auto total = steps_of_run(deck.train, m.context, meta);
  return {std::move(deck),   std::move(training), std::move(validation),
          std::move(reader), std::move(meta),     total};
}

std::vector<TokenFile> files_of(const Inputs& in) {
  std::vector<TokenFile> files;
  for (const auto& range : in.training.ranges()) files.push_back(range.file);
  if (in.validation && in.deck.data.validation_fraction == 0)  // else the training files
    for (const auto& range : in.validation->ranges()) files.push_back(range.file);
  return files;
}

// Other tokens under the same deck are trained on without an error: continued pre-training does so.
void compare_tokens_with_checkpoint(Inputs& in) {
  std::string identities;
  for (const auto& range : in.training.ranges())
    for (const auto& [_, value] : identity_of(range.file)) identities += value + "\n";
  const auto here = to_string(hash128(identities));
  auto& there = in.meta.extra.token_files;
  if (in.from && !there.empty() && there != here)
    log_warning(
        "the token files are not those that the checkpoint was trained on: it goes on with these, "
        "at sample {}",
        in.meta.samples);
  there = here;
}

void compare_order_with_checkpoint(Inputs& in) {
  auto& there = in.meta.extra.order_of_few;
  const bool in_epoch =
      !in.deck.data.weights.empty() || in.meta.samples % in.training.samples_per_epoch() != 0;
  if (in.from && there.empty() && in_epoch && in.training.shuffles_few())
    log_warning(
        "the checkpoint is of a version that drew the order of up to {} samples in another way: "
        "until this epoch ends some samples come again and others do not come",
        Permutation::few);
  there = "shuffled";
}

// What the model that the first weights are of has to do with the one that is trained.
void compare_with_initial(const Inputs& in, const CheckpointReader& initial,
                          const std::string& name) {
  require_model(initial, make_spec(in.deck.model));
  const auto differences = model_differences(model_of(initial), in.deck.model);
  if (!differences.empty())
    log_warning("model.init_from: {} is a model that computes otherwise: {}", name,
                fmt::join(differences, "; "));
}

// The ranks of a node share its memory; those with a device have one each.
void require_memory(const Communicator& world, const Inputs& in, const BackendChoice& choice,
                    DType compute) {
  std::size_t capacity = 0;
  std::array<double, 2> taken{};  // in all, and without the copy that checkpoints are written from
  bool shared = true;
  together(world, [&] {
    auto target = dry_target(choice);
    capacity = std::exchange(target.capacity, std::size_t{1} << 60);
    shared = target.properties.host_readable;
    auto input = plan_input(in.deck, compute, transport_of(in.deck, choice));
    input.setup.first_step = in.meta.step;
    const auto mine = reserved_by(std::move(input), std::move(target), world.rank());
    taken = {static_cast<double>(mine.all + mine.beside.headroom),
             static_cast<double>(mine.without_snapshot + mine.beside.headroom)};
    // What NCCL really takes is known when all ranks are connected.
    if (mine.all + mine.beside.headroom <= capacity &&
        mine.all + mine.beside.headroom + mine.beside.nccl > capacity)
      log_warning(
          "a rank reserves {:.2f} GiB and leaves {:.2f} GiB free: by an estimate NCCL takes {:.2f} "
          "GiB more, which its GPU may not have",
          static_cast<double>(mine.all) * 0x1p-30,
          static_cast<double>(mine.beside.headroom) * 0x1p-30,
          static_cast<double>(mine.beside.nccl) * 0x1p-30);
  });
  if (shared) world.node().all_reduce(taken);
  together(world, [&] {
    const auto limit = static_cast<double>(capacity);
    if (taken[0] <= limit) return;
    const std::string ways =
        taken[1] <= limit
            ? "set checkpoint.async = false, which saves the copy that checkpoints are written from"
            : fmt::format(
                  "lower train.microbatch or model.context, set model.recompute = \"block\"{}, or "
                  "take more {}",
                  world.size() == 1 || in.deck.zero.stage == 3 ? "" : " or zero.stage = 3",
                  shared ? "nodes" : "ranks");
    fail(
        "{} would reserve {:.2f} GiB, and {} has {:.2f} GiB: {}; `trireme plan` shows what takes "
        "it",
        world.size() == 1 ? "this run"
        : shared          ? "the ranks of a node"
                          : "a rank",
        taken[0] / (1 << 30), host_name(), limit / (1 << 30), ways);
  });
}

// Ranks of several kinds have no bits of one run. A restart elsewhere goes on, with other bits.
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
          "run.exactness = \"invariant\" needs CPUs of one kind: rank 0 has {}, rank {} has {}. "
          "Ask "
          "for nodes of one kind (Slurm: --constraint), or give run.exactness = \"fast\"",
          all[0], r, all[r]));
  }
  const auto here = fmt::format("{}", fmt::join(kinds, " and "));
  auto& there = in.meta.extra.machine;
  if (in.from && !there.empty() && there != here && in.deck.run.exactness != Exactness::fast)
    log_warning(
        "the checkpoint comes from another kind of machine: from here on the bits are those of {}, "
        "no longer those of {}",
        here, there);
  there = here;
}

// The model and its state.
void open_model(Machine& machine, Inputs& in, DType compute) {
  machine.workspace = std::make_unique<Workspace>(*machine.backend);
  auto setup = trainer_setup(in.deck, compute);
  setup.first_step = in.meta.step;
  machine.trainer = std::make_unique<Trainer>(*machine.backend, machine.axes, std::move(setup));
  auto& store = machine.trainer->store();
  if (in.from) {
    load_state(store, *in.from, machine.trainer->standings());
  } else if (const auto& init_from = in.deck.model.init_from; !init_from.empty()) {
    CheckpointReader weights(find_checkpoint(init_from));
    load_weights(store, weights);
    log_info("weights from {}", weights.directory().string());
  } else {
    store.initialize(in.meta.seed, machine.choice.threads);
  }
}

}  // namespace

Inputs open_inputs(const Communicator& world, Deck deck, const std::string& from) {
  std::optional<Inputs> in;
  together(world, Pace::slow, [&] { in.emplace(inputs_of(std::move(deck), from)); });
  require_same_files(world, files_of(*in));
  together(world, Pace::slow, [&] {
    compare_tokens_with_checkpoint(*in);
    compare_order_with_checkpoint(*in);
    if (const auto& model = in->deck.model.init_from; !model.empty() && !in->from)
      compare_with_initial(*in, CheckpointReader(find_checkpoint(model)), model);
  });
  if (world.size() > 1) world.broadcast(in->meta.run);  // a new run's identity is rank 0's
  return std::move(*in);
}

Machine open_machine(const Communicator& world, Inputs& in, std::uint64_t rounding) {
  Machine m;
  m.choice = backend_choice(in.deck, world);
  m.choice.rounding = rounding;
  m.choice.device = launch::gpu_of_rank(m.choice.name == "cuda", in.deck.run.share_gpu, world);
  compare_machines(world, in, m.choice);
  const auto compute = agreed_compute(world, m.choice, in.deck.precision.compute);
  const auto grid = grid_of(in.deck);
  require_memory(world, in, m.choice, compute);
  m.axes = make_axes(world, grid, shard_ranks(in.deck.zero, grid));
  // A backend takes what is free of its device then.
  if (transport_of(in.deck, m.choice) == TransportKind::device)
    connect(m.axes, transport::nccl_on(m.choice.device));
  together(world, [&] { m.backend = open_backend(m.choice); });
  together(world, Pace::slow, [&] { open_model(m, in, compute); });
  return m;
}

}  // namespace trireme
