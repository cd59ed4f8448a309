#include "app/machine.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/launch/devices.hpp"
#include "lib/launch/nodes.hpp"
#include "lib/launch/threads.hpp"
#include "lib/train/state.hpp"

namespace trireme {

Machine choose_machine(const Communicator& world, const Deck& deck, const FixedModels& fixed,
                       ModelUse use, DocumentWeights weights) {
  Machine m;
  m.choice = backend_choice(deck, world);
  warn_of_threads(m.choice, launch::processors_of_rank(world));
  m.choice.device = launch::gpu_of_rank(m.choice.name == "cuda", deck.run.share_gpu, world);
  const auto compute = agreed_compute(world, m.choice, deck.precision.compute);
  m.input =
      plan_input_of(deck, compute, transport_of(deck, m.choice), fixed.teacher_model, weights);
  if (use == ModelUse::training) {
    const auto nodes = launch::nodes_of_ranks(world);  // with one, there are no second copies
    if (std::ranges::count(nodes, 0) == world.size()) m.input.ranks_of_node = world.size();
    return m;
  }
  m.input.setup.trainable = false;
  const bool evaluates = use == ModelUse::evaluation;
  m.input.evaluation = evaluates ? PlanEvaluation::included : PlanEvaluation::left_out;
  if (!evaluates) m.input.setup.exact_chunk = 0;
  return m;
}

// Warns if NCCL's buffers may not fit into GPU memory. Their exact size is known only after all
// ranks are connected.
static void warn_of_nccl(const Reserved& r, std::size_t capacity) {
  const auto held = r.all + r.outside.headroom;
  if (held > capacity || held + r.outside.nccl <= capacity) return;
  log_warning(
      "a rank reserves {:.2f} GiB of GPU memory and leaves {:.2f} GiB free: NCCL needs an "
      "estimated {:.2f} GiB more, which may not fit",
      static_cast<double>(r.all) * 0x1p-30, static_cast<double>(r.outside.headroom) * 0x1p-30,
      static_cast<double>(r.outside.nccl) * 0x1p-30);
}

// Throws SharedError if the ranks need more memory than there is. Ranks without a GPU share the
// memory of their node. Each rank with a GPU has the GPU's memory for itself. Collective.
static void require_memory(const Communicator& world, const Machine& m) {
  const bool trains = m.input.setup.trainable;
  double capacity = 0;
  std::array<double, 2> taken{};  // with and without the copy from which checkpoints are written
  bool shared = true;
  together(world, [&] {
    auto target = dry_target(m.choice);
    const auto here = std::exchange(target.capacity, std::size_t{1} << 60);
    capacity = static_cast<double>(here);
    shared = target.properties.host_readable;
    if (!trains) {
      taken[0] = static_cast<double>(reserved_untrained(m.input, std::move(target), world.rank()));
      return;
    }
    const auto mine = reserved_by(m.input, std::move(target), world.rank());
    taken = {static_cast<double>(mine.all + mine.outside.headroom),
             static_cast<double>(mine.without_snapshot + mine.outside.headroom)};
    // Files in a memory file system take the memory of the node's ranks.
    if (shared && mine.memory_copies > 0 &&
        is_in_memory(memory_root(launch::test_node(world.rank()))))
      for (auto& bytes : taken) bytes += mine.memory_copies;
    warn_of_nccl(mine, here);
  });
  if (shared) world.node().all_reduce(taken);
  const auto more = shared ? "nodes" : "ranks";
  const auto whose = [&](const char* alone) {
    return world.size() == 1 ? alone : shared ? "the ranks of a node" : "a rank";
  };
  together(world, [&] {
    if (taken[0] <= capacity) return;
    if (!trains)
      fail("{} would reserve {:.2f} GiB for this model, and {} has {:.2f} GiB: use more {}",
           whose("this program"), taken[0] * 0x1p-30, host_name(), capacity * 0x1p-30, more);
    const std::string advice =
        taken[1] <= capacity
            ? fmt::format(
                  "set checkpoint.async = false{}, which avoids the copy from which "
                  "checkpoints are written",
                  m.input.copies == PlanCopies::included ? " and checkpoint.memory_every = 0" : "")
            : fmt::format(
                  "lower train.microbatch or model.context, set model.recompute = \"block\"{}, or "
                  "use more {}",
                  world.size() == 1 || m.input.setup.zero.stage == 3 ? "" : " or zero.stage = 3",
                  more);
    fail(
        "{} would reserve {:.2f} GiB, and {} has {:.2f} GiB: {}. `trireme plan` shows what needs "
        "the memory",
        whose("this run"), taken[0] * 0x1p-30, host_name(), capacity * 0x1p-30, advice);
  });
}

void Machine::open(const Communicator& world) {
  require_memory(world, *this);
  axes = make_axes(world, input.grid, shard_ranks(input.setup.zero, input.grid));
  // Connects first: the backend then takes the device memory that is still free.
  if (input.transport == TransportKind::device) connect(axes, transport::nccl_on(choice.device));
  together(world, [&] { backend = open_backend(choice); });
  together(world, Pace::slow, [&] {
    workspace = std::make_unique<Workspace>(*backend);
    trainer = std::make_unique<Trainer>(*backend, axes, input.setup);
  });
}

static void load(Machine& m, FixedModels& fixed, CheckpointReader* from, std::uint64_t seed) {
  auto& store = m.trainer->store();
  const auto& setup = m.input.setup;
  const bool adapts = setup.adapter.rank > 0;
  if (adapts) {
    load_base(store, *fixed.initial);
    const auto kept = setup.adapter.base;
    if (setup.trainable) {
      log_info("training adapters on the base model {}{}", fixed.initial->directory().string(),
               kept == BaseType::compute ? "" : fmt::format(", stored as {}", name_of(kept)));
      log_info("adapters: {}", adapters_text(m.trainer->model().spec()));
    }
  }
  if (from && setup.trainable) {
    load_state(store, *from, m.trainer->freeze_states());
  } else if (from) {
    load_weights(store, *from);
  } else if (adapts) {
    store.initialize_adapters(seed, m.choice.threads);
    initialize_norms(store, *fixed.initial);
  } else if (fixed.initial) {
    load_weights(store, *fixed.initial);
    if (setup.trainable) log_info("initial weights from {}", fixed.initial->directory().string());
  } else {
    store.initialize(seed, m.choice.threads);
  }
  if (!fixed.teacher) return;
  load_weights(m.trainer->teacher()->store(), *fixed.teacher);
  log_info("the teacher is {} with {:.2f}M parameters", fixed.teacher->directory().string(),
           1e-6 * static_cast<double>(make_spec(*fixed.teacher_model).parameter_count()));
}

void load_model(const Communicator& world, Machine& m, FixedModels& fixed, CheckpointReader* from,
                std::uint64_t seed) {
  together(world, Pace::slow, [&] { load(m, fixed, from, seed); });
}

}  // namespace trireme
