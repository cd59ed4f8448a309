// NCCL's rules on a simulated device, as far as one rank shows them.
#include <gmock/gmock.h>
#include <nccl.h>

#include "kernels/backend.hpp"
#include "kernels/cuda/backend/cuda.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/transport/nccl/launch_order.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/comm/transport/pretended_transport.hpp"
#include "tests/cuda/simulated/streams.hpp"
#include "tests/support/message_of.hpp"

namespace trireme::cuda {
namespace {

using simulated::fault;
using testing::HasSubstr;

class SimulatedMessages : public testing::Test {
 protected:
  SimulatedMessages() {
    simulated::mend();
    ncclUniqueId id{};
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  }
  ~SimulatedMessages() override {
    simulated::mend();
    backend->give(block, {});
    backend.reset();
    ncclCommAbort(comm);
  }
  cudaStream_t stream(Queue q) { return static_cast<cudaStream_t>(backend->native(q)); }

  std::unique_ptr<Backend> backend = open_cuda({});
  Block block = backend->take(1024, MemoryKind::transient, Queue::gather);
  ncclComm_t comm = nullptr;
};

TEST_F(SimulatedMessages, HaveToBeReceived) {
  EXPECT_EQ(ncclSend(block.data, 64, ncclUint8, 0, comm, stream(Queue::gather)), ncclSuccess);
  EXPECT_NE(cudaStreamSynchronize(stream(Queue::gather)), cudaSuccess);
  EXPECT_THAT(fault(), HasSubstr("is not received"));
}

TEST_F(SimulatedMessages, AreReceivedWhole) {
  ncclGroupStart();
  ncclSend(block.data, 64, ncclUint8, 0, comm, stream(Queue::gather));
  ncclRecv(block.data + 512, 60, ncclUint8, 0, comm, stream(Queue::gather));
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_NE(cudaStreamSynchronize(stream(Queue::gather)), cudaSuccess);
}

TEST_F(SimulatedMessages, StayOnOneStreamAndOnTheDevice) {
  std::byte here{};
  EXPECT_EQ(ncclSend(&here, 1, ncclUint8, 0, comm, stream(Queue::gather)), ncclInvalidArgument);
  ncclGroupStart();
  ncclSend(block.data, 64, ncclUint8, 0, comm, stream(Queue::gather));
  EXPECT_EQ(ncclRecv(block.data + 64, 64, ncclUint8, 0, comm, stream(Queue::scatter)),
            ncclInvalidUsage);
  ncclGroupEnd();
}

// With a device for each rank, number 0 is the wrong one for all but one of them.
TEST(SimulatedDevices, NcclRefusesStreamsOfAnother) {
  setenv("TRIREME_SIMULATED_DEVICES", "2", 1);
  simulated::mend();
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const auto backend = open_cuda({.device = 1});
  const Block block = backend->take(1024, MemoryKind::transient, Queue::gather);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);  // as if nobody had chosen
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  auto* const stream = static_cast<cudaStream_t>(backend->native(Queue::gather));
  EXPECT_EQ(ncclSend(block.data, 64, ncclUint8, 0, comm, stream), ncclInvalidUsage);
  ncclCommAbort(comm);
  EXPECT_EQ(cudaMemsetAsync(block.data, 0, 64, stream), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  backend->give(block, {});
}

// Before CUDA 12.3 work of several communicators has no order: a pipeline may stand still.
TEST(SimulatedDevices, AnOldDriverIsRefusedBeforeRanksCanWaitForEver) {
  setenv("TRIREME_SIMULATED_DRIVER", "12020", 1);
  const auto two = transport::pretended_host(0, 2);
  const auto said = message_of([&] {
    transport::nccl_on(0)({*two, [](transport::Transport::Request, const std::string&) {}});
  });
  EXPECT_THAT(said, HasSubstr("a driver for CUDA 12.2"));
  EXPECT_THAT(said, HasSubstr("run.share_gpu"));
  unsetenv("TRIREME_SIMULATED_DRIVER");
}

TEST(SimulatedDevices, LaunchesAreInOrderFromTheseVersionsOn) {
  EXPECT_NO_THROW(transport::require_launch_order(12030, 22600));
  EXPECT_THROW(transport::require_launch_order(12030, 22505), Error);
  EXPECT_THROW(transport::require_launch_order(12020, 22809), Error);
}

}  // namespace
}  // namespace trireme::cuda
