#include "lib/io/hdf5_sink.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/support/scratch.hpp"

namespace trireme {

// A memory copy and a checkpoint are written by threads of the same process.
TEST(Hdf5Sink, OneThreadAtATimeUsesHdf5) {
  const ScratchFolder folder;
  auto a = PosixFile::create(folder / "a"), b = PosixFile::create(folder / "b");
  std::optional<Hdf5Sink> first(std::in_place, a);
  std::atomic<bool> begun = false;
  std::thread other([&] {
    const Hdf5Sink second(b);
    begun = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(begun);
  first.reset();
  other.join();
  EXPECT_TRUE(begun);
}

}  // namespace trireme
