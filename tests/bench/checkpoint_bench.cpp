// Saving and loading 1 GiB of state on one rank, beside plain write + fsync of the same bytes in
// the same directory and plain read of the same file. Interleaved rounds; cold reads come from the
// disk.
//   checkpoint_bench [DIRECTORY] [ROUNDS]
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "lib/base/rng.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/checkpoint_save.hpp"

using namespace trireme;
namespace fs = std::filesystem;

struct Timing {
  double wall, cpu;  // seconds
};

template <class F>
static Timing timed(F f) {
  const auto start = std::chrono::steady_clock::now();
  const auto cpu = std::clock();
  f();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

static Timing median(std::vector<Timing> v) {
  std::sort(v.begin(), v.end(), [](auto& a, auto& b) { return a.wall < b.wall; });
  return v[v.size() / 2];
}

// Clean pages leave the page cache, so the next read meets the disk.
static void forget(const fs::path& path) {
  const int f = ::open(path.c_str(), O_RDONLY);
  ::posix_fadvise(f, 0, 0, POSIX_FADV_DONTNEED);
  ::close(f);
}

int main(int argc, char** argv) {
  const fs::path folder = fs::path(argc > 1 ? argv[1] : "build") / "checkpoint_bench";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  // 12 layers' worth of slices with both moments.
  std::vector<ParamSlice> slices;
  const std::int64_t rows = 7'281, width = 1024;
  for (int layer = 0; layer < 12; ++layer) {
    for (const char* array : {"weights", "moment1", "moment2"}) {
      slices.push_back({fmt::format("block.{}.weight", layer),
                        array,
                        {rows, width},
                        0,
                        rows * width,
                        DType::f32});
    }
  }
  const auto bytes = static_cast<std::int64_t>(slices.size()) * rows * width * 4;
  std::vector<std::byte> state(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i + 8 <= state.size(); i += 8) {
    const auto x = mix64(i);
    std::memcpy(state.data() + i, &x, 8);
  }
  std::size_t served = 0;
  const SliceSource source = [&](const ParamSlice&, std::int64_t, std::int64_t n) {
    const auto part = std::span(state).subspan(served, static_cast<std::size_t>(4 * n));
    served += part.size();
    return std::span<const std::byte>(part);
  };
  CheckpointMeta meta;
  meta.step = 1;

  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto plain = folder / "plain";
  std::vector<Timing> write_s, save_s, read_s, load_s, warm_read_s, warm_load_s;
  std::vector<std::byte> out(state.size());
  const auto shard = folder / checkpoint_name(1) / "rank-00000.h5";
  const auto plain_read = [&] {
    const auto file = PosixFile::open(shard);
    for (std::size_t at = 0; at < out.size(); at += 4 << 20) {
      const auto n = std::min<std::size_t>(4 << 20, out.size() - at);
      file.read_at(std::span(out).subspan(at, n), static_cast<std::int64_t>(at));
    }
  };
  const auto load = [&] {
    CheckpointReader reader(folder / checkpoint_name(1));
    std::size_t at = 0;
    for (const auto& s : slices) {
      reader.read(s.name, s.array, 0, s.count,
                  std::span(out).subspan(at, static_cast<std::size_t>(4 * s.count)));
      at += static_cast<std::size_t>(4 * s.count);
    }
  };
  for (int round = 0; round < rounds; ++round) {
    fs::remove(plain);
    ::sync();
    write_s.push_back(timed([&] {
      auto file = PosixFile::create(plain);
      for (std::size_t at = 0; at < state.size(); at += 4 << 20) {
        const auto n = std::min<std::size_t>(4 << 20, state.size() - at);
        file.write_at(std::span(state).subspan(at, n), static_cast<std::int64_t>(at));
      }
      file.sync();
    }));
    fs::remove_all(folder / checkpoint_name(1));
    ::sync();
    served = 0;
    save_s.push_back(timed([&] { save_checkpoint(folder, meta, slices, source); }));
    forget(shard);
    read_s.push_back(timed(plain_read));
    warm_read_s.push_back(timed(plain_read));
    forget(shard);
    std::fill(out.begin(), out.end(), std::byte{0});
    load_s.push_back(timed(load));
    if (out != state) {
      fmt::print("what was loaded is not what was saved\n");
      return 1;
    }
    warm_load_s.push_back(timed(load));
  }
  fs::remove_all(folder);
  const auto line = [&](const char* what, const std::vector<Timing>& s) {
    const auto m = median(s);
    fmt::print("{:<16}{:>7.2f} s{:>7.2f} GB/s{:>8.2f} s of CPU   (rounds:", what, m.wall,
               static_cast<double>(bytes) / m.wall / 1e9, m.cpu);
    for (const auto& x : s) fmt::print(" {:.2f}", x.wall);
    fmt::print(")\n");
  };
  fmt::print("{:.2f} GB of state, one rank, into {}: medians\n", static_cast<double>(bytes) / 1e9,
             folder.parent_path().string());
  line("write + fsync", write_s);
  line("save", save_s);
  line("read, cold", read_s);
  line("load, cold", load_s);
  line("read, cached", warm_read_s);
  line("load, cached", warm_load_s);
  return 0;
}
