// Checkpoints of 1 GB of state, timed: `mpiexec -n 2 bench_checkpoint FOLDER ROUNDS`. Saving beside
// write + fsync of the same bytes to the same folder, loading beside read of the same files, both
// from the disk, in turns; medians. Then what training waits for a save behind it, and what it
// costs to copy the state into the memory of two nodes in each step; with `memory` after ROUNDS,
// this alone.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/train/copy_saver.hpp"
#include "lib/train/state.hpp"
#include "lib/train/state_saver.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;
namespace fs = std::filesystem;

constexpr bench::Model model{"1GB", 6, 16, 1024, 64, 2, 8192};
constexpr std::int64_t piece = std::int64_t{4} << 20;

struct Bench {
  Bench(const Communicator& w, const fs::path& f) : world(w), folder(f) {
    trainer.store().initialize(1, 1);
    step();  // memory is touched, and moments are numbers like any
    mine = saver.size().all / world.size();
    buffer.resize(static_cast<std::size_t>(mine), std::byte{1});
    for (std::size_t i = 0; i + 8 <= buffer.size(); i += 8) {
      const auto x = mix64(i);
      std::memcpy(buffer.data() + i, &x, 8);
    }
  }

  static TrainerSetup setup() {
    TrainerSetup s;
    s.model = bench::config_of(model);
    s.zero.stage = 3;
    return s;
  }
  void step() { trainer.step(steps++, 1e-4, batches); }
  // Seconds until all ranks have done it.
  double timed(const std::function<void()>& f) const {
    double sum = 0;
    world.all_reduce({&sum, 1});
    const double begin = bench::seconds();
    f();
    double took = bench::seconds() - begin;
    world.all_reduce_max({&took, 1});
    return took;
  }
  void each_piece(const std::function<void(std::span<std::byte>, std::int64_t)>& f) {
    const auto n = static_cast<std::int64_t>(buffer.size());
    for (std::int64_t at = 0; at < n; at += piece)
      f(std::span(buffer).subspan(static_cast<std::size_t>(at),
                                  static_cast<std::size_t>(std::min(piece, n - at))),
        at);
  }

  const Communicator& world;
  fs::path folder;
  Host backend{1};
  Workspace workspace{backend};
  Axes axes = make_axes(world, {1, world.size(), 1}, world.size());
  Trainer trainer{backend, axes, setup()};
  StateSaver saver{trainer.store(), axes, folder};
  std::vector<Batch> batches{
      trainer.share(bench::random_batch(model.B / world.size(), model.T, model.V, 1))};
  double mine = 0;  // bytes of this rank's share of the state
  std::vector<std::byte> buffer;
  std::int64_t steps = 0;
};

// Clean pages leave the page cache, so that the next read meets the disk.
void forget(const fs::path& path) {
  const int f = ::open(path.c_str(), O_RDONLY);
  ::posix_fadvise(f, 0, 0, POSIX_FADV_DONTNEED);
  ::close(f);
}

void compare(Bench& b, int rounds) {
  std::vector<double> write, save, read, load;
  const auto plain = b.folder / fmt::format("plain-{}", b.world.rank());
  CheckpointMeta meta;
  for (int round = 0; round < rounds; ++round) {
    fs::remove(plain);
    ::sync();
    write.push_back(b.timed([&] {
      auto file = PosixFile::create(plain);
      b.each_piece([&](std::span<std::byte> part, std::int64_t at) { file.write_at(part, at); });
      file.sync();
    }));
    meta.step = round + 1;
    ::sync();
    fs::path saved;
    save.push_back(b.timed([&] { saved = b.saver.save(meta); }));
    const auto shard = saved / fmt::format("rank-{:05}.h5", b.world.rank());
    forget(shard);
    read.push_back(b.timed([&] {
      const auto file = PosixFile::open(shard);
      b.each_piece([&](std::span<std::byte> part, std::int64_t at) { file.read_at(part, at); });
    }));
    forget(shard);
    load.push_back(b.timed([&] {
      CheckpointReader reader(saved);
      load_state(b.trainer.store(), reader, b.trainer.freeze_states());
    }));
    at_root(b.world, [&] { fs::remove_all(saved); });
  }
  fs::remove(plain);
  if (b.world.rank() == 0)
    fmt::print("bytes {:.0f} write {:.3f} save {:.3f} read {:.3f} load {:.3f}\n",
               b.mine * b.world.size(), bench::median(write), bench::median(save),
               bench::median(read), bench::median(load));
}

void behind_training(Bench& b, int rounds) {
  std::vector<double> undisturbed, disturbed, copies, stalls;
  std::vector<std::byte> copy(b.buffer.size(), std::byte{2});
  b.saver.reserve();
  CheckpointMeta meta;
  for (int round = 0; round < rounds; ++round) {
    for (int s = 0; s < 2; ++s) undisturbed.push_back(b.timed([&] { b.step(); }));
    copies.push_back(b.timed([&] { std::ranges::copy(b.buffer, copy.begin()); }));
    meta.step = round + 1;
    double stall = b.timed([&] { b.saver.begin(meta); });
    std::optional<fs::path> saved;
    while (!saved) {
      disturbed.push_back(b.timed([&] { b.step(); }));
      double working = b.saver.working();
      b.world.all_reduce_max({&working, 1});
      if (working == 0) stall += b.timed([&] { saved = b.saver.advance(); });
    }
    stalls.push_back(stall);
    at_root(b.world, [&] { fs::remove_all(*saved); });
  }
  if (b.world.rank() == 0)
    fmt::print("step {:.3f} disturbed {:.3f} copy {:.3f} stall {:.3f}\n",
               bench::median(undisturbed), bench::median(disturbed), bench::median(copies),
               bench::median(stalls));
}

// Steps each of which is copied into memory, as if each rank had a node of its own, and steps
// without copies.
void copy_to_memory(Bench& b, int rounds) {
  std::vector<double> alone, copied, pauses;
  b.saver.reserve();
  CopySaver copies(b.trainer.store(), b.axes, b.folder, "bench");
  CheckpointMeta meta;
  meta.run = "bench";
  for (int round = 0; round < rounds; ++round) {
    alone.push_back(b.timed([&] { b.step(); }));
    meta.step = round + 1;
    double pause = b.timed([&] {
      const auto failure = copies.begin(meta, b.saver.snapshot());
      require(failure.empty(), "{}", failure);
    });
    const double step = b.timed([&] { b.step(); });
    pause += b.timed([&] {
      const auto failure = copies.finish();
      require(failure.empty(), "{}", failure);
    });
    pauses.push_back(pause);
    copied.push_back(step + pause);
  }
  copies.remove_all();
  if (b.world.rank() == 0)
    fmt::print("alone {:.3f} copied {:.3f} pause {:.3f}\n", bench::median(alone),
               bench::median(copied), bench::median(pauses));
}

int run(int argc, char** argv) {
  const bool memory_alone = argc == 4 && std::string_view(argv[3]) == "memory";
  require(argc == 3 || memory_alone, "usage: {} FOLDER ROUNDS [memory]", argv[0]);
  const fs::path memory = "/dev/shm/bench_checkpoint";
  ::setenv("TRIREME_TEST_NODES", "a,b", 1);
  ::setenv("TRIREME_MEMORY_DIR", memory.c_str(), 1);
  const launch::MpiJob mpi;
  const fs::path folder = fs::path(argv[1]) / "bench_checkpoint";
  at_root(mpi.world(), [&] {
    remove_tree(folder);
    make_directory(folder);
  });
  {
    Bench b(mpi.world(), folder);
    if (!memory_alone) {
      compare(b, std::atoi(argv[2]));
      behind_training(b, std::atoi(argv[2]));
    }
    copy_to_memory(b, std::atoi(argv[2]));
  }
  at_root(mpi.world(), [&] {
    remove_tree(folder);
    remove_tree(memory);
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::host::reexec_with_wait_policy(argv);
  return run(argc, argv);
}
