#include "lib/train/state_saver.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/seconds.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/node_copies.hpp"
#include "lib/train/state_fault.hpp"

namespace trireme {

// The first place of each stage reports the stage's parameters. Parameters of experts are reported
// by the first place that holds them.
std::map<std::string, std::int64_t> updates_of(const Store& store, const Axes& axes) {
  const auto& params = store.spec().params;
  std::vector<double> counts(params.size(), 0);
  const int place = axes.grid.place(axes.world.rank());
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto id = ParamId::at(i);
    const int places = params[i].expert >= 0 ? axes.grid.expert : 1;
    if (place < places && store.reports(id)) counts[i] = static_cast<double>(store.count(id));
  }
  axes.world.all_reduce(counts);
  std::map<std::string, std::int64_t> by_name;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (is_saved(params[i])) by_name[params[i].name] = static_cast<std::int64_t>(counts[i]);
  return by_name;
}

void require_finite(const Communicator& world, std::int64_t step, const std::string& not_finite) {
  const auto all = world.all_gather(not_finite);
  const auto bad = std::ranges::find_if(all, [](const auto& text) { return !text.empty(); });
  if (bad == all.end()) return;
  throw StateFault(fmt::format(
      "the state after step {} is not saved: rank {}: {}. Older checkpoints are unchanged: check "
      "optimizer.lr, optimizer.eps and the data of the preceding steps",
      step, bad - all.begin(), *bad));
}

StateSaver::StateSaver(const Store& store, const Axes& axes, std::filesystem::path checkpoints,
                       std::function<void()> require_lock)
    : store_(store),
      axes_(axes),
      checkpoints_(std::move(checkpoints)),
      require_lock_(std::move(require_lock)) {}

StateSaver::~StateSaver() = default;

void StateSaver::guarded(const std::function<void()>& phase) {
  try {
    phase();
  } catch (const SharedError&) {
    const auto error = std::current_exception();
    phase_ = Phase::idle;
    try {  // another rank's thread may still write
      together(axes_.world, Pace::slow, [&] { work_.join(); });
    } catch (const SharedError&) {
    }
    if (axes_.world.rank() == 0) abandon();
    std::rethrow_exception(error);
  }
}

void StateSaver::abandon() {
  try {
    require_lock_();
    abandon_save(checkpoints_, meta_.step);
  } catch (const Error&) {  // another process's files of this name must stay
  }
}

void StateSaver::open(CheckpointMeta&& meta) {
  require(!busy(), "a checkpoint of step {} is still being written", meta_.step);
  const auto& world = axes_.world;
  meta_ = std::move(meta);
  written_ = {};
  not_finite_.clear();
  seconds_ = 0;
  std::string partial;
  at_root(world, Pace::slow, [&] {
    require_lock_();
    partial = begin_save(checkpoints_, meta_.step).string();
  });
  world.broadcast(partial);
  partial_ = partial;
}

void StateSaver::timed(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  seconds_ += seconds_since(begin);
}

void StateSaver::write(const SliceSource& elements) {
  if (mine_.slices.empty()) return;
  timed([&] {
    try {
      written_ = write_shard(partial_, axes_.world.rank(), meta_, mine_.slices, elements);
    } catch (const NotFinite& e) {
      not_finite_ = e.what();
    }
  });
}

void StateSaver::write_copied(const CopiedState::Shard& shard) {
  timed([&] {
    const auto why = copy_if_intact(*shard.file, shard.byte_record, partial_ / shard.record.name);
    require(why.empty(), "{}", why);
    written_ = shard.record;
  });
}

void StateSaver::collect() {
  const auto& world = axes_.world;
  require_finite(world, meta_.step, not_finite_);
  const auto texts = world.all_gather(written_.slices.empty() ? "" : to_text(written_));
  at_root(world, [&] {
    collected_.clear();
    for (const auto& text : texts)
      if (!text.empty()) collected_.push_back(parse_file_record(text));
  });
}

void StateSaver::publish_all() {
  timed([&] {
    published_ = publish(checkpoints_, meta_, std::move(collected_), require_lock_).string();
  });
}

StateSaver::Size StateSaver::size() const {
  const double mine = bytes_of(rank_slices(store_));
  Size size{mine, mine};
  axes_.world.all_reduce({&size.all, 1});
  axes_.world.all_reduce_max({&size.largest, 1});
  return size;
}

std::filesystem::path StateSaver::save(CheckpointMeta meta) {
  const auto& world = axes_.world;
  std::string path;
  guarded([&] {
    meta.updates = updates_of(store_, axes_);
    open(std::move(meta));
    together(world, Pace::slow, [&] {
      mine_ = rank_slices(store_);
      write(elements_of(store_, mine_));
    });
    collect();
    at_root(world, Pace::slow, [&] { publish_all(); });
    path = published_;
  });
  world.broadcast(path);
  return path;
}

void StateSaver::begin(CheckpointMeta meta) {
  guarded([&] {
    meta.updates = updates_of(store_, axes_);
    open(std::move(meta));
    together(axes_.world, [&] {
      mine_ = rank_slices(store_);
      timed([&] { snapshot_.take(store_, mine_); });
    });
    start_writing({});
  });
}

void StateSaver::begin(CopiedState state) {
  guarded([&] {
    open(std::move(state.meta));
    mine_ = std::move(state.mine);
    start_writing(std::move(state.shard));
  });
}

void StateSaver::start_writing(std::optional<CopiedState::Shard> copied) {
  together(axes_.world, [&] {
    work_.start([this, copied = std::move(copied)] {
      if (copied)
        write_copied(*copied);
      else
        write(snapshot_.elements());
    });
  });
  phase_ = Phase::writing;
}

std::optional<std::filesystem::path> StateSaver::advance() {
  const auto& world = axes_.world;
  std::string path;
  guarded([&] {
    if (phase_ == Phase::writing) {
      together(world, Pace::slow, [&] { work_.join(); });
      collect();
      at_root(world, [&] { work_.start([this] { publish_all(); }); });
      phase_ = Phase::publishing;
    } else {
      at_root(world, Pace::slow, [&] { work_.join(); });
      path = published_;
      phase_ = Phase::idle;
    }
  });
  if (busy()) return std::nullopt;
  world.broadcast(path);
  return path;
}

std::filesystem::path StateSaver::finish() {
  require(busy(), "no checkpoint is being written");
  while (true)
    if (auto path = advance()) return *path;
}

}  // namespace trireme
