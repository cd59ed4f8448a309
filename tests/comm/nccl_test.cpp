// NCCL with one rank, where a device answers: several need a GPU each. What ranks do with it is
// tested on a stand-in (tests/support/host_wire.hpp).
#include "lib/comm/nccl.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/open/open.hpp"
#include "lib/comm/pretend_transport.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {
namespace {

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda_devices(&why) == 0) GTEST_SKIP() << "no device: " << why;
    if (nccl_library().empty()) GTEST_SKIP() << "built without NCCL";
    backend = open_backend({.name = "cuda"});
    const auto alone = pretend_transport(0, 1);
    wire = nccl_wire(*alone);
  }

  Tensor filled(float first) {
    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), first);
    auto t = Tensor::empty(*backend, {1000}, DType::f32, Kind::transient, queue);
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
  std::unique_ptr<DeviceWire> wire;
};

TEST_F(Nccl, OneRankGathersWhatItHas) {
  const auto all = filled(3);
  EXPECT_TRUE(wire->test(wire->all_gather(bytes(all), backend->native(queue))));
  EXPECT_EQ(read(all), read(filled(3)));
  wire->check();
}

TEST_F(Nccl, OneRankSumsWhatItHas) {
  const auto all = filled(3), sum = filled(-5000);
  EXPECT_TRUE(wire->test(wire->reduce_scatter(floats(all), floats(sum), backend->native(queue))));
  EXPECT_EQ(read(sum), read(all));
  wire->check();
}

TEST_F(Nccl, MessagesToOneselfArriveInOrder) {
  const auto a = filled(1), b = filled(2), to_a = filled(-7000), to_b = filled(-9000);
  wire->begin_group(backend->native(queue));
  wire->send(0, 5, bytes(a));
  wire->send(0, 4, bytes(b));
  wire->receive(0, 5, bytes(to_a));
  wire->receive(0, 4, bytes(to_b));
  wire->end_group();
  EXPECT_EQ(read(to_a), read(a));
  EXPECT_EQ(read(to_b), read(b));
  wire->check();
}

}  // namespace
}  // namespace trireme
