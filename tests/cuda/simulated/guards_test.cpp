// run.guards on a device: a kernel that goes past a block ends the process, or is found when the
// block is given back.
#include <gmock/gmock.h>

#include <array>

#include "kernels/cuda/device.hpp"

namespace trireme::cuda {
namespace {

class CudaGuardsDeathTest : public testing::Test {
 protected:
  Block take(std::size_t floats, Memory memory = Memory::device) {
    return backend->take(floats * sizeof(float), MemoryKind::saved, Queue::compute, memory);
  }
  void write(const Block& block, std::int64_t begin, std::int64_t n) {
    const View v{block.data + begin * 4, DType::f32, {n}};
    backend->put(Queue::compute, kernel::Fill{.dst = v, .value = 1});
  }
  void give(const Block& b) {
    const auto last = backend->record(Queue::compute);
    backend->give(b, {{last}});
  }

  std::unique_ptr<Backend> backend = open_cuda({.guards = Guards::on});
};

TEST_F(CudaGuardsDeathTest, OneElementPastABlockOfWholeGranules) {
  const auto block = take(1024);
  write(block, 0, 1024);
  EXPECT_DEATH(write(block, 0, 1025), "");
  give(block);
}

TEST_F(CudaGuardsDeathTest, OneElementPastAnyOtherBlock) {
  const auto block = take(250);
  write(block, 0, 250);
  EXPECT_DEATH(
      {
        write(block, 0, 251);
        give(block);
      },
      "0 bytes after the end of a block of 1000 bytes of saved");
  give(block);
}

TEST_F(CudaGuardsDeathTest, OneElementBeforeABlock) {
  const auto block = take(250);
  EXPECT_DEATH(
      {
        write(block, -1, 1);
        give(block);
      },
      "before a block of 1000 bytes of saved");
}

TEST_F(CudaGuardsDeathTest, WhatWasGivenBack) {
  const auto block = take(250);
  give(block);
  EXPECT_DEATH(write(block, 0, 1), "");
}

TEST_F(CudaGuardsDeathTest, PinnedMemoryToo) {
  const auto block = take(250, Memory::pinned);
  const auto source = take(250);
  write(source, 0, 250);
  const std::span<std::byte> bytes(block.data, 1000);
  backend->download(Queue::compute, bytes, View{source.data, DType::f32, {250}});
  EXPECT_DEATH(
      {
        block.data[1001] = std::byte{0};
        give(block);
      },
      "1 bytes after the end of a block of 1000 bytes of saved");
  give(block);
  give(source);
}

// Without guards nothing of this shows, and the account is the same.
TEST(CudaGuards, AreOffUnlessAskedFor) {
  std::array<Account, 2> accounts;
  for (const auto guards : {Guards::off, Guards::on}) {
    const auto backend = open_cuda({.guards = guards});
    const auto a = backend->take(1000, MemoryKind::saved, Queue::compute),
               b = backend->take(1024, MemoryKind::saved, Queue::compute);
    if (guards == Guards::off)
      backend->put(Queue::compute, kernel::Fill{.dst = {a.data, DType::f32, {300}}, .value = 1});
    const auto last = backend->record(Queue::compute);
    backend->give(a, {{last}});
    backend->give(b, {{last}});
    accounts[static_cast<std::size_t>(guards)] = backend->account();
  }
  EXPECT_EQ(accounts[0].peak, accounts[1].peak);
  EXPECT_EQ(accounts[0].reserved, accounts[1].reserved);
}

}  // namespace
}  // namespace trireme::cuda
