// What a transport between devices is asked for, by one rank of three that do not run.
#include <gmock/gmock.h>

#include "lib/comm/communicator.hpp"
#include "tests/support/dry.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;

struct Gather {
  const std::byte *mine, *all;
  bool operator==(const Gather&) const = default;
};

struct Calls {
  std::vector<std::size_t> sent, received;  // bytes of each message
  std::vector<Gather> gathers;
};

class RecordingTransport final : public transport::DeviceTransport {
 public:
  explicit RecordingTransport(Calls& calls) : calls_(calls) {}
  int rank() const override { return 1; }
  int size() const override { return 3; }
  Request send(int, int, std::span<const std::byte> bytes) override {
    calls_.sent.push_back(bytes.size());
    return {};
  }
  Request receive(int, int, std::span<std::byte> bytes) override {
    calls_.received.push_back(bytes.size());
    return {};
  }
  bool test(Request) override { return true; }
  void begin_group(void*) override {}
  void end_group() override {}
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all, void*) override {
    calls_.gathers.push_back({mine.data(), all.data()});
    return {};
  }
  Request reduce_scatter(std::span<const float>, std::span<float>, void*) override { return {}; }
  void check() override {}

 private:
  Calls& calls_;
};

class Counting final : public Dry {
 public:
  Counting() : Dry(roomy_target(false)) {}
  void put(Queue q, const kernel::Operation& o) override {
    Dry::put(q, o);
    ++puts;
  }
  int puts = 0;
};

class BetweenDevices : public testing::Test {
 protected:
  BetweenDevices() {
    world.connect([&](const auto&) { return std::make_unique<RecordingTransport>(calls); });
    world.configure({.chunk = 100});
  }
  Tensor blank(std::int64_t n) {
    return Tensor::empty(backend, {n}, DType::f32, MemoryKind::transient);
  }

  Calls calls;
  Counting backend;
  Communicator world = Communicator::pretend(1, 3);
};

TEST_F(BetweenDevices, ShardsAreGatheredFromWhereTheyLie) {
  const auto shard = blank(1000), whole = blank(3000);

  world.all_gather(backend, Queue::compute, whole.view(), shard.view(), {}).wait(Queue::compute);

  EXPECT_THAT(calls.gathers, ElementsAre(Gather{shard.view().data, whole.view().data}));
  EXPECT_EQ(backend.puts, 0) << "the transport copies the rank's own slice";
  EXPECT_EQ(world.bytes_sent(), 2 * 4000);
}

TEST_F(BetweenDevices, AMessageTravelsWhole) {
  const auto x = blank(1000), y = blank(500), to = blank(1000), from = blank(1000);

  world.send(backend, Queue::compute, x.view(), 2, {}).wait(Queue::compute);
  world.receive(backend, Queue::compute, y.view(), 0, {}).wait(Queue::compute);
  EXPECT_THAT(calls.sent, ElementsAre(4000U));
  EXPECT_THAT(calls.received, ElementsAre(2000U));
  const std::vector<View> dst{to.view(), {}, {}};
  const std::vector<ConstView> src{from.view(), {}, {}};
  world.exchange(backend, Queue::compute, dst, src, {}).wait(Queue::compute);
  EXPECT_THAT(calls.sent, ElementsAre(4000U, 4000U));
  EXPECT_THAT(calls.received, ElementsAre(2000U, 4000U));
}

// What is rounded or added on its way goes through buffers of a chunk.
TEST_F(BetweenDevices, StagedMessagesAreChunks) {
  const auto whole = blank(300), sum = blank(100);
  world.configure({.chunk = 50});

  world
      .reduce_scatter(backend, Queue::compute, sum.view(), whole.view(), Accumulate::overwrite,
                      DType::bf16, {})
      .wait(Queue::compute);

  EXPECT_THAT(calls.sent, ElementsAre(100U, 100U, 100U, 100U));
}

}  // namespace
}  // namespace trireme
