// NCCL with one rank, where a device answers: several need a GPU each. What ranks do with it is
// tested on a stand-in (tests/support/device_on_host.hpp).
#include "lib/comm/transport/nccl_transport.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/open/open.hpp"
#include "lib/comm/transport/pretended_transport.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme::transport {
namespace {

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda_devices(&why) == 0) GTEST_SKIP() << "no device: " << why;
    if (nccl_library().empty()) GTEST_SKIP() << "built without NCCL";
    backend = open_backend({.name = "cuda"});
    const auto alone = pretended_host(0, 1);
    nccl = nccl_on(0)(
        {*alone, [&](Transport::Request r, const auto&) { EXPECT_TRUE(alone->test(r)); }});
  }

  Tensor filled(float first) {
    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), first);
    auto t = Tensor::empty(*backend, {1000}, DType::f32, MemoryKind::transient, queue);
    backend->upload(queue, t.view(), std::as_bytes(std::span(values)));
    return t;
  }
  std::vector<float> read(const Tensor& t) {
    std::vector<float> values(1000);
    backend->download(queue, std::as_writable_bytes(std::span(values)), t.view());
    return values;
  }
  static std::span<std::byte> bytes(const Tensor& t) {
    return {t.view().data, t.view().span_bytes()};
  }
  static std::span<float> floats(const Tensor& t) {
    return {reinterpret_cast<float*>(t.view().data), 1000};
  }

  static constexpr Queue queue = Queue::gather;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<DeviceTransport> nccl;
};

TEST_F(Nccl, OneRankGathersWhatItHas) {
  const auto mine = filled(3), all = filled(-5000);
  EXPECT_TRUE(nccl->test(nccl->all_gather(bytes(mine), bytes(all), backend->native(queue))));
  EXPECT_EQ(read(all), read(mine));
  EXPECT_TRUE(nccl->test(nccl->all_gather(bytes(all), bytes(all), backend->native(queue))));
  EXPECT_EQ(read(all), read(mine));
  nccl->check();
}

TEST_F(Nccl, OneRankSumsWhatItHas) {
  const auto all = filled(3), sum = filled(-5000);
  EXPECT_TRUE(nccl->test(nccl->reduce_scatter(floats(all), floats(sum), backend->native(queue))));
  EXPECT_EQ(read(sum), read(all));
  nccl->check();
}

TEST_F(Nccl, MessagesToOneselfArriveInOrder) {
  const auto a = filled(1), b = filled(2), to_a = filled(-7000), to_b = filled(-9000);
  nccl->begin_group(backend->native(queue));
  nccl->send(0, 5, bytes(a));
  nccl->send(0, 4, bytes(b));
  nccl->receive(0, 5, bytes(to_a));
  nccl->receive(0, 4, bytes(to_b));
  nccl->end_group();
  EXPECT_EQ(read(to_a), read(a));
  EXPECT_EQ(read(to_b), read(b));
  nccl->check();
}

}  // namespace
}  // namespace trireme::transport
