// What the host still does for operations between devices: it waits for them before it reads, and
// names the one that failed. Nothing here starts MPI.
#include "lib/comm/engine/progress.hpp"

#include <gtest/gtest.h>

#include "lib/comm/communicator.hpp"
#include "lib/comm/transport/pretended_transport.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

// Its queues are slow.
class Slow final : public Dry {
 public:
  Slow() : Dry(roomy_target(false)) {}
  bool done(Event) override { return finished; }
  bool finished = false;
};

class Breaking final : public transport::DeviceTransport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Request send(int, int, std::span<const std::byte>) override { return {}; }
  Request receive(int, int, std::span<std::byte>) override { return {}; }
  bool test(Request) override { return true; }
  void begin_group(void*) override {}
  void end_group() override {}
  Request all_gather(std::span<const std::byte>, std::span<std::byte>, void*) override {
    return {};
  }
  Request reduce_scatter(std::span<const float>, std::span<float>, void*) override { return {}; }
  void check() override { fail("the cable is out"); }
};

class Synchronize : public testing::Test {
 protected:
  void gather(const transport::OpenDevice& open) {
    world.connect(open);
    const auto x = blank(10), y = blank(20);
    world
        .all_gather(backend, Queue::compute, y.view(), x.view(),
                    {OperationKind::gather, "blocks.3", 2})
        .wait(Queue::compute);
  }
  Tensor blank(std::int64_t n) {
    return Tensor::empty(backend, {n}, DType::f32, MemoryKind::transient);
  }

  Slow backend;
  Communicator world = Communicator::pretend(0, 2);
};

TEST_F(Synchronize, IsSilentWhenAllIsDone) {
  gather(transport::pretended_device);
  backend.finished = true;
  world.synchronize();
  EXPECT_EQ(world.bytes_sent(), 40);
}

TEST_F(Synchronize, NamesTheOperationThatFailed) {
  gather([](const transport::Bootstrap&) { return std::make_unique<Breaking>(); });
  const auto text = message_of<Error>([&] { world.synchronize(); });
  EXPECT_NE(
      text.find("gather of blocks.3, microbatch 2 or an earlier operation failed on the device"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("the cable is out"), std::string::npos) << text;
  world.synchronize();  // reported once
}

TEST_F(Synchronize, GivesUpAfterTheHangTimeout) {
  gather(transport::pretended_device);
  world.configure({.hang_timeout = 0.02});
  const auto text = message_of<Error>([&] { world.synchronize(); });
  EXPECT_NE(text.find("gather of blocks.3, microbatch 2 is not finished after 0.02 s"),
            std::string::npos)
      << text;
}

TEST_F(Synchronize, AnEventIsWaitedForAsLongAsAnythingElse) {
  world.configure({.hang_timeout = 0.02});
  const auto event = backend.record(Queue::compute);
  const auto text = message_of<Error>([&] { world.wait(backend, event, "the first half"); });
  EXPECT_EQ(text.find("the first half is not finished after 0.02 s (on this rank)"), 0U) << text;
  backend.finished = true;
  world.wait(backend, event, "the first half");
}

TEST_F(Synchronize, ForgetsACommunicatorThatIsGone) {
  gather([](const transport::Bootstrap&) { return std::make_unique<Breaking>(); });
  world = {};
  world.synchronize();
}

}  // namespace
}  // namespace trireme
