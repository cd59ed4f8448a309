#include "kernels/cuda/runtime/memory.hpp"

#include <gmock/gmock.h>

#include "tests/cuda/runtime/recording_runtime.hpp"
#include "tests/support/message_of.hpp"

namespace trireme::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto page = RecordingRuntime::page;

class CudaMemory : public testing::Test {
 protected:
  Block take(std::size_t bytes, Queue first = Queue::compute) {
    return memory_.take(bytes, MemoryKind::transient, first, Memory::device);
  }

  RecordingRuntime runtime_;
  Queues queues_{runtime_};
  DeviceMemory memory_{runtime_, queues_};
};

TEST_F(CudaMemory, PutsPagesBehindWhatTheArenaReserves) {
  const auto a = take(100);
  EXPECT_THAT(runtime_.backed, ElementsAre(std::pair(a.data, page)));

  const auto b = take(3 * page);

  EXPECT_EQ(b.data, a.data + a.bytes);
  EXPECT_THAT(runtime_.backed,
              ElementsAre(std::pair(a.data, page), std::pair(a.data + page, 3 * page)));
}

TEST_F(CudaMemory, LeavesItsHeadroomToOthers) {
  DeviceMemory some(runtime_, queues_, 60 * page);
  some.take(4 * page, MemoryKind::transient, Queue::compute, Memory::device);
  EXPECT_THROW(some.take(1, MemoryKind::transient, Queue::compute, Memory::device), Error);
  EXPECT_THROW(DeviceMemory(runtime_, queues_, 64 * page), Error);
}

TEST_F(CudaMemory, TakesNothingForWhatIsThere) {
  const auto a = take(page);
  memory_.give(a, {});
  const auto before = runtime_.backed;

  take(page / 2);

  EXPECT_EQ(runtime_.backed, before);
}

TEST_F(CudaMemory, TheNextTakerWaitsForTheLastUser) {
  const auto a = take(256);
  const auto used = queues_.record(Queue::gather);
  memory_.give(a, {{used}});
  runtime_.calls.clear();

  const auto b = take(256);

  EXPECT_EQ(b.data, a.data);
  EXPECT_THAT(runtime_.calls, ElementsAre("wait 0 for 0"));
}

TEST_F(CudaMemory, TheSameQueueNeedsNoWait) {
  const auto a = take(256);
  memory_.give(a, {{queues_.record(Queue::compute)}});
  runtime_.calls.clear();

  take(256);

  EXPECT_THAT(runtime_.calls, IsEmpty());
}

TEST_F(CudaMemory, AccountsAsEveryArenaDoes) {
  Arena arena(runtime_.device_size, runtime_.device_size);
  std::vector<Block> blocks;
  for (std::size_t bytes : {1000U, 5000U, 300U, 7000U}) {
    blocks.push_back(take(bytes));
    arena.take(bytes, MemoryKind::transient, Memory::device);
  }
  memory_.give(blocks[1], {});
  arena.give(static_cast<std::size_t>(blocks[1].data - blocks[0].data), blocks[1].bytes,
             MemoryKind::transient, Memory::device, {});

  EXPECT_EQ(memory_.account().live, arena.account().live);
  EXPECT_EQ(memory_.account().reserved, arena.account().reserved);
}

TEST_F(CudaMemory, SaysWhatTookItAllWhenItIsFull) {
  runtime_.device_left = 2 * page;
  take(page);
  const auto said = message_of([&] { take(2 * page); });
  EXPECT_THAT(said, HasSubstr("out of memory for 8192 bytes of transient"));
  EXPECT_THAT(said, HasSubstr("MiB reserved"));
}

TEST_F(CudaMemory, KnowsThePiecesOfItsPinnedMemory) {
  const auto b = memory_.take(1000, MemoryKind::staging, Queue::compute, Memory::pinned);
  ASSERT_EQ(runtime_.pinned.size(), 1U);
  const auto [begin, bytes] = runtime_.pinned[0];
  EXPECT_EQ(begin, b.data);
  EXPECT_EQ(memory_.copied_whole(begin), bytes);
  EXPECT_EQ(memory_.copied_whole(begin + 1000), bytes - 1000);
  EXPECT_EQ(memory_.copied_whole(begin + bytes), bytes);
  EXPECT_GT(memory_.copied_whole(take(1).data), std::size_t{1} << 40);
  b.data[999] = std::byte{1};  // may be written
}

TEST(CudaMemoryEnd, GivesEverythingBack) {
  RecordingRuntime runtime;
  {
    Queues queues(runtime);
    DeviceMemory memory(runtime, queues);
    memory.take(1000, MemoryKind::staging, Queue::compute, Memory::pinned);
  }
  EXPECT_TRUE(runtime.released());
  EXPECT_THAT(runtime.pinned, IsEmpty());
}

TEST(CudaMemoryGuards, EachBlockHasAddressesOfItsOwn) {
  RecordingRuntime runtime;
  {
    Queues queues(runtime);
    DeviceMemory memory(runtime, queues, 0, Guards::on);
    const auto a = memory.take(100, MemoryKind::saved, Queue::gather, Memory::device),
               b = memory.take(3 * page, MemoryKind::saved, Queue::gather, Memory::device);
    EXPECT_THAT(runtime.backed,
                ElementsAre(std::pair(a.data + 256 - page, page), std::pair(b.data, 3 * page)));
    queues.synchronize(Queue::gather);
    EXPECT_EQ(a.data[-1], known_byte);
    EXPECT_EQ(a.data[100], known_byte);
    const auto pinned = memory.take(100, MemoryKind::staging, Queue::compute, Memory::pinned);
    ASSERT_EQ(runtime.pinned.size(), 1U);
    EXPECT_EQ(memory.copied_whole(pinned.data), 256U);  // to the end of its pages
    memory.give(pinned, {});
    EXPECT_THAT(runtime.pinned, IsEmpty());
    memory.take(100, MemoryKind::staging, Queue::compute, Memory::pinned);
    memory.give(a, {});
    EXPECT_EQ(memory.account().live_all, b.bytes + 256);
  }
  EXPECT_THAT(runtime.pinned, IsEmpty());
}

}  // namespace
}  // namespace trireme::cuda
