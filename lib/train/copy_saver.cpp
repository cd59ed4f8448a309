#include "lib/train/copy_saver.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "kernels/immediate.hpp"
#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/mapped_file.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/seconds.hpp"
#include "lib/base/sizes.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/copy_partners.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/nodes.hpp"
#include "lib/train/state_fault.hpp"
#include "lib/train/state_saver.hpp"

namespace trireme {

namespace fs = std::filesystem;

// Upper limit for the bytes of a shard that are not elements: HDF5's structures, records and the
// tokenizer. A constant, and a share of the elements.
constexpr double overhead_bytes = 4e6, overhead_share = 0.01;
// Shorter ranges are sent although they are unchanged, because a message of their own for the bytes
// before them would take longer.
constexpr std::int64_t least_unchanged = 4096;

static void broadcast_owner(const Communicator& world, CopyOwner& owner) {
  world.broadcast(owner.run);
  world.broadcast(owner.start);
}

void remove_earlier_copies(const Communicator& world, const fs::path& run, std::int64_t step) {
  CopyOwner owner;
  at_root(world, Pace::slow, [&] {
    try {
      owner = read_copy_owner(run).value_or(CopyOwner{});
    } catch (const Error& e) {
      log_warning("{} -- memory copies of an earlier start of the run stay until its job ends",
                  e.what());
    }
    remove_copy_owner(run);
  });
  broadcast_owner(world, owner);
  if (owner.start.empty()) return;
  double newest = -1;
  together(world, Pace::slow, [&] {
    for (const auto& copy : held_copies(memory_root(launch::test_node(world.rank())), owner))
      newest = std::max(newest, static_cast<double>(copy.step));
  });
  world.all_reduce_max({&newest, 1});
  if (newest > static_cast<double>(step) && world.rank() == 0)
    log_warning(
        "the memory copy of step {:.0f} of an earlier start is removed, because the run continues "
        "from step {}: `trireme rescue` was not run before this start, or a shard was lost",
        newest, step);
  together(world, Pace::slow, [&] {  // several ranks of a node may remove the same directory
    remove_copies(memory_root(launch::test_node(world.rank())), owner);
  });
}

// Returns a text that differs between file systems of a host.
static std::string file_system_of(const fs::path& directory) {
  struct stat s {};
  if (::stat(directory.c_str(), &s) != 0) fail_errno("access", directory, errno);
  return fmt::format("{}", s.st_dev);
}

CopyNodes copy_nodes(const Communicator& world) {
  CopyNodes n{launch::nodes_of_ranks(world), {}, 0};
  n.receivers = copy_receivers(n.nodes);
  const auto mine = n.nodes[static_cast<std::size_t>(world.rank())];
  n.leader = static_cast<int>(std::ranges::find(n.nodes, mine) - n.nodes.begin());
  return n;
}

static CopyPeers peers_of(int rank, const std::vector<int>& receivers) {
  CopyPeers peers{receivers[static_cast<std::size_t>(rank)], {}};
  for (std::size_t r = 0; r < receivers.size(); ++r)
    if (receivers[r] == rank) peers.senders.push_back(static_cast<int>(r));
  return peers;
}

void require_space_for_copies(const Store& store, const Axes& axes, const fs::path& run,
                              const std::string& run_id) {
  const auto& world = axes.world;
  const auto nodes = copy_nodes(world);
  CopyOwner earlier;
  at_root(world, Pace::slow, [&] {
    try {
      earlier = read_copy_owner(run).value_or(CopyOwner{});
    } catch (const Error&) {  // remove_earlier_copies() warns of it
    }
  });
  broadcast_owner(world, earlier);
  fs::path root;
  together(world, [&] {
    require(
        is_plain_name(run_id),
        "checkpoint.memory_every needs the ID of the run, which its checkpoints lack, because an "
        "old version wrote them: set checkpoint.memory_every = 0");
    root = memory_root(launch::test_node(world.rank()));
    if (nodes.leader == world.rank()) make_memory_root(root);
  });

  std::vector<double> bytes(nodes.nodes.size(), 0);
  const double mine = bytes_of(rank_slices(store));
  bytes[static_cast<std::size_t>(world.rank())] =
      mine > 0 ? (1 + overhead_share) * mine + overhead_bytes : 0;
  world.all_reduce(bytes);
  const auto of_nodes = bytes_of_nodes(nodes.nodes, nodes.receivers, bytes);
  const bool leads = nodes.leader == world.rank();
  std::string file_system;  // nodes may share one, such as containers of one host
  together(world, [&] {
    if (leads) file_system = fmt::format("{} {}", host_name(), file_system_of(root));
  });
  const auto file_systems = world.all_gather(file_system);
  // A run that continues after a failure is better without copies than not at all.
  const bool recovers = launch::recovery_count() > 0;
  std::string shortage;
  together(world, [&] {
    if (!leads) return;
    double one = 0, snapshots = 0;  // of the nodes with this file system
    for (std::size_t r = 0; r < file_systems.size(); ++r) {
      if (file_systems[r] != file_system) continue;
      const auto node = nodes.nodes[r];
      one += of_nodes[static_cast<std::size_t>(node)];
      for (std::size_t i = 0; i < bytes.size(); ++i)
        if (nodes.nodes[i] == node) snapshots += bytes[i];
    }
    const double all = memory_copies_at_a_time * one;
    const auto needs = fmt::format(
        "checkpoint.memory_every needs {} in {} on {} ({} copies of {}, of the node's own ranks{})",
        memory_text(all), root.string(), host_name(), memory_copies_at_a_time, memory_text(one),
        nodes.receivers[0] < 0 ? "" : " and those of another node");
    constexpr std::string_view advice =
        "Use more nodes, set TRIREME_MEMORY_DIR to a larger memory file system, or set "
        "checkpoint.memory_every = 0";
    std::error_code e;
    const auto space = fs::space(root, e);
    if (e) fail_errno("access", root, e.value());
    const double free = static_cast<double>(space.available) +
                        (earlier.start.empty() ? 0 : bytes_of_copies(root, earlier));
    if (free < all)
      shortage = fmt::format("{}, but only {} are free. {}", needs, memory_text(free), advice);
    require(shortage.empty() || recovers, "{}", shortage);
    // The files take the memory of the job.
    const auto memory = static_cast<double>(physical_memory());
    require(!is_in_memory(root) || memory >= all + snapshots,
            "{}, and {} for the snapshots from which they are written, but the job has only {} of "
            "memory there. {}",
            needs, memory_text(snapshots), memory_text(memory), advice);
  });
  for (const auto& of_node : world.all_gather(shortage))
    if (!of_node.empty() && world.rank() == 0) log_warning("{}", of_node);
}

CopySaver::CopySaver(const Store& store, const Axes& axes, fs::path run, std::string run_id)
    : store_(store),
      axes_(axes),
      run_(std::move(run)),
      nodes_(copy_nodes(axes.world)),
      owner_{std::move(run_id), random_id()} {
  const auto& world = axes_.world;
  broadcast_owner(world, owner_);
  together(world, [&] {
    root_ = memory_root(launch::test_node(world.rank()));
    copies_ = copies_of(root_, owner_, nodes_.leader);
    if (!leads()) return;
    make_memory_root(root_);
    make_directory(copies_);
  });
  at_root(world, Pace::slow, [&] { write_copy_owner(run_, owner_); });
  exchange_ =
      std::make_unique<CopyExchange>(world.duplicate(), peers_of(world.rank(), nodes_.receivers));
  world.set_companion([this] { exchange_->poll(); });
}

CopySaver::~CopySaver() {
  axes_.world.set_companion({});
}

std::string CopySaver::description() const {
  if (!is_in_memory(root_))
    log_warning(
        "{} is not in memory, so memory copies take space on a disk. Set TRIREME_MEMORY_DIR to a "
        "directory in a memory file system of each node, such as /dev/shm",
        root_.string());
  const auto nodes = *std::ranges::max_element(nodes_.nodes) + 1;
  return fmt::format("memory copies are written to {}{}", root_.string(),
                     nodes > 1 ? fmt::format(" on two of {} nodes each", nodes)
                               : ". The job has one node, so they survive the end of processes, "
                                 "but not the end of the node");
}

std::optional<CopyExchange::WrittenShard> CopySaver::write_own(const Snapshot& snapshot) {
  if (mine_.slices.empty()) return {};
  const int rank = axes_.world.rank();
  auto file = open_or_create(partial_ / shard_name(rank));
  std::vector<ByteRange> unchanged;
  auto mapped = std::make_unique<MappedFile>(file);  // what the copy overwrites
  const auto old_bytes = mapped->bytes();
  shard_ =
      rewrite_shard(file, rank, meta_, mine_.slices, snapshot.elements(), old_bytes, unchanged);
  if (std::ssize(old_bytes) != shard_.size) mapped = std::make_unique<MappedFile>(file);
  auto record = record_of_bytes(shard_name(rank), mapped->bytes());
  record.rank = rank;
  auto changed = ranges_outside(std::move(unchanged), shard_.size, least_unchanged);
  return CopyExchange::WrittenShard{std::move(record), std::move(mapped), std::move(changed)};
}

std::string CopySaver::drop(std::string why) {
  const auto& world = axes_.world;
  together(world, [&] {
    if (leads()) drop_copy(copies_, meta_.step);
  });
  return why;
}

std::string CopySaver::begin(CheckpointMeta meta, Snapshot& snapshot) {
  expect(!busy_, "one memory copy at a time");
  const auto& world = axes_.world;
  retired_ = -1;
  meta_ = std::move(meta);
  meta_.updates = updates_of(store_, axes_);
  try {
    together(world, [&] {
      mine_ = rank_slices(store_);
      partial_ = partial_copy(copies_, meta_.step);
      if (leads()) begin_copy(copies_, meta_.step);
      snapshot.take(store_, mine_);
    });
  } catch (const SharedError& e) {
    return drop(e.what());
  }
  busy_ = true;
  exchange_->begin(partial_, [this, &snapshot] { return write_own(snapshot); });
  return {};
}

bool CopySaver::working() {
  if (!busy_) return false;
  exchange_->poll();
  return exchange_->working();
}

// The waits of all_reduce_max() have a deadline of their own. This one is for a rank whose thread
// or messages do not end.
void CopySaver::wait_for_all() {
  const auto& world = axes_.world;
  const auto began = std::chrono::steady_clock::now();
  const double limit = world.settings().hang_timeout;
  while (true) {
    const bool mine = working();
    double any = mine;
    world.all_reduce_max({&any, 1});
    if (any == 0) return;
    require(!mine || limit <= 0 || seconds_since(began) < limit,
            "the memory copy of step {} is not finished after {} s: {}", meta_.step, limit,
            exchange_->state());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string CopySaver::finish() {
  const auto& world = axes_.world;
  wait_for_all();
  busy_ = false;
  try {
    require_finite(world, meta_.step, exchange_->not_finite());
    std::string own, record;
    together(world, [&] {
      const auto failure = exchange_->failure();
      require(failure.empty(), "{}", failure);
      if (exchange_->own()) own = to_text(*exchange_->own());
    });
    const auto all = world.all_gather(own);
    at_root(world, [&] {
      Manifest manifest{meta_, {}};
      for (const auto& text : all)
        if (!text.empty()) manifest.files.push_back(parse_file_record(text));
      if (!meta_.tokenizer.empty())
        manifest.files.push_back(
            record_of_bytes(tokenizer_name, as_bytes(std::span(meta_.tokenizer))));
      record = to_text(manifest);
    });
    world.broadcast(record);
    together(world, [&] {
      if (leads()) add_copy_record(partial_, record, meta_.tokenizer);
    });
    together(world, [&] {
      if (leads()) publish_copy(copies_, meta_.step);
    });
  } catch (const SharedError& e) {
    const auto error = std::current_exception();
    drop(e.what());
    if (dynamic_cast<const StateFault*>(&e)) std::rethrow_exception(error);
    return e.what();
  }
  retired_ = std::exchange(newest_, meta_.step);
  if (leads()) retire_other_copies(copies_, newest_);  // the newer copy is complete on all nodes
  return {};
}

CopiedState CopySaver::copied() const {
  CopiedState state{meta_, mine_, {}};
  if (newest_ != meta_.step) return state;
  try {
    together(axes_.world, [&] {
      if (mine_.slices.empty()) return;
      const auto path = copies_ / checkpoint_name(newest_) / shard_.name;
      state.shard = {shard_, *exchange_->own(), std::make_shared<PosixFile>(PosixFile::open(path))};
    });
  } catch (const SharedError& e) {
    if (axes_.world.rank() == 0)
      log_warning("step {}: the checkpoint is not written from the memory copy: {}", newest_,
                  e.what());
    state.shard = {};
    state.in_memory = false;
    return state;
  }
  state.in_memory = true;
  return state;
}

void CopySaver::remove_all() {
  const auto& world = axes_.world;
  wait_for_all();
  busy_ = false;
  together(world, Pace::slow, [&] {
    if (leads()) remove_copies(root_, owner_);
  });
  at_root(world, Pace::slow, [&] {  // unless another process has taken the run
    if (read_copy_owner(run_) == owner_) remove_copy_owner(run_);
  });
}

}  // namespace trireme
