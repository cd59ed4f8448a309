#pragma once
// Training whose state is saved, for the tests of the savers: on each rank of the world, with
// sharded weights and optimizer state.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/train/state_saver.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {

inline ParityCase saved_case() {
  const int n = world().size();
  ParityCase p;
  p.grid = n == 4 ? Grid{2, 2, 1} : Grid{1, n, 1};
  if (n == 3) p.size = 24;
  p.zero.stage = 3;
  p.optimizer = OptimizerKind::adamw;
  p.steps = 6;
  return p;
}

struct SavedTraining {
  // Checkpoints are written to the folder `below` in a folder that all ranks share.
  explicit SavedTraining(const ParityCase& c, const std::string& below = ".")
      : p(c), checkpoints((root / below).lexically_normal()) {
    trainer->store().initialize(3, 1);
    if (world().rank() == 0) std::filesystem::create_directories(checkpoints);
    meet();
  }
  static std::string of_rank_0(std::string path) {
    world().broadcast(path);
    return path;
  }
  static CheckpointMeta meta(std::int64_t step) {
    CheckpointMeta m;
    m.step = step;
    m.run = "f00d";
    m.tokenizer_kind = "bytes";
    m.tokenizer = "tokens";
    return m;
  }
  void steps(int n) {
    for (int s = 0; s < n; ++s, ++done)
      trainer->step(done, learning_rate(p), parity_step(p, *trainer, done));
  }

  ParityCase p;
  ScratchFolder folder;
  std::filesystem::path root = of_rank_0(folder.path().string()), checkpoints;
  std::unique_ptr<Backend> backend = open_backend(backend_of(p, true));
  Workspace workspace{*backend};
  std::unique_ptr<Trainer> trainer =
      std::make_unique<Trainer>(*backend, parity_axes(p), parity_setup(p));
  StateSaver saver{trainer->store(), trainer->axes(), checkpoints};
  int done = 0;
};

// Names and elements of all arrays of all parameters.
inline std::string arrays_in(const std::filesystem::path& checkpoint) {
  CheckpointReader reader(checkpoint);
  std::string all;
  for (const auto& p : reader.params()) {
    auto arrays = reader.arrays_of(p.name);
    arrays.emplace_back(weights_array);
    for (const auto& array : arrays) {
      std::vector<std::byte> values(static_cast<std::size_t>(p.shape.count()) * bytes_of(p.dtype));
      reader.read(p.name, array, 0, p.shape.count(), values);
      all += p.name + array;
      all.append(reinterpret_cast<const char*>(values.data()), values.size());
    }
  }
  return all;
}

// Limits the size of files that the last rank writes, as long as the object lives.
class FullDiskOfLastRank {
 public:
  FullDiskOfLastRank() {
    std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit now{20000, before_.rlim_max};
    if (world().rank() == world().size() - 1) setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDiskOfLastRank() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDiskOfLastRank(const FullDiskOfLastRank&) = delete;
  FullDiskOfLastRank& operator=(const FullDiskOfLastRank&) = delete;

 private:
  rlimit before_{};
};

}  // namespace trireme::test
