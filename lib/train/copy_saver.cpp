#include "lib/train/copy_saver.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/mapped_file.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/seconds.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/nodes.hpp"
#include "lib/train/state_fault.hpp"
#include "lib/train/state_saver.hpp"

namespace trireme {

namespace fs = std::filesystem;

// Shorter ranges are sent although they are unchanged, because a message of their own for the bytes
// before them would take longer.
constexpr std::int64_t least_unchanged = 4096;

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
  broadcast(world, owner);
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

static CopyPeers peers_of(int rank, const std::vector<int>& receivers) {
  CopyPeers peers{receivers[static_cast<std::size_t>(rank)], {}};
  for (std::size_t r = 0; r < receivers.size(); ++r)
    if (receivers[r] == rank) peers.senders.push_back(static_cast<int>(r));
  return peers;
}

CopySaver::CopySaver(const Store& store, const Axes& axes, fs::path run, std::string run_id)
    : store_(store),
      axes_(axes),
      run_(std::move(run)),
      nodes_(copy_nodes(axes.world)),
      owner_{std::move(run_id), random_id()} {
  const auto& world = axes_.world;
  broadcast(world, owner_);
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

void CopySaver::drop() {
  together(axes_.world, [&] {
    if (leads()) drop_copy(copies_, meta_.step);
  });
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
    drop();
    return e.what();
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
    drop();
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
