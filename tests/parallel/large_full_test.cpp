// Operations above 2^31 bytes, with short chunks and with long ones. Needs about 7 GB.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/host/host.hpp"
#include "tests/parallel/world.hpp"

namespace trireme::test {
namespace {

constexpr std::int64_t limit = std::int64_t{1} << 31;

class Large : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (world().size() != 2) GTEST_SKIP() << "for two ranks";
    world().configure({.chunk = GetParam()});
  }
  Tensor tensor(std::int64_t n) {
    return Tensor::empty(host_, {n}, DType::f32, MemoryKind::transient);
  }
  void fill(const Tensor& t, double x) {
    host_.put(Queue::compute, kernel::Fill{.dst = t.view(), .value = x});
  }
  // All elements but the last, and the last.
  static void expect_values(const Tensor& t, float x, float last) {
    const auto n = static_cast<std::size_t>(t.shape().count());
    const std::span values(reinterpret_cast<const float*>(t.view().data), n);
    EXPECT_TRUE(std::ranges::all_of(values.first(n - 1), [=](float v) { return v == x; }));
    EXPECT_EQ(values.back(), last);
  }

  Host host_{1};
  const int me_ = world().rank();
};
INSTANTIATE_TEST_SUITE_P(Pieces, Large,
                         testing::Values(std::int64_t{1} << 20, std::int64_t{1} << 27));

TEST_P(Large, SendAndReceive) {
  const std::int64_t n = limit / 4 + 3;
  const auto x = tensor(n);
  const auto last = x.slice(n - 1, {1});

  if (me_ == 0) {
    fill(x, 1);
    fill(last, 7);
    world().send(host_, Queue::down, x.view(), 1, {OperationKind::send}).wait(Queue::compute);
    EXPECT_GE(world().bytes_sent(), 4 * n);
  } else {
    fill(x, 0);
    world().receive(host_, Queue::down, x.view(), 0, {OperationKind::receive}).wait(Queue::compute);
    expect_values(x, 1, 7);
  }
}

TEST_P(Large, Gather) {
  const std::int64_t n = limit / 8 + 3;  // dst is above the limit
  const auto dst = tensor(2 * n);
  for (int r = 0; r < 2; ++r) fill(dst.slice(r * n, {n}), r == me_ ? 1 + r : 0);
  fill(dst.slice((me_ + 1) * n - 1, {1}), 7 + me_);

  world()
      .all_gather(host_, Queue::gather, dst.view(), dst.slice(me_ * n, {n}).view(),
                  {OperationKind::gather})
      .wait(Queue::compute);

  expect_values(dst.slice(0, {n}), 1, 7);
  expect_values(dst.slice(n, {n}), 2, 8);
}

TEST_P(Large, Scatter) {
  const std::int64_t n = limit / 8 + 3;  // src is above the limit
  const auto src = tensor(2 * n), dst = tensor(n);
  for (int r = 0; r < 2; ++r) fill(src.slice(r * n, {n}), 1 + me_ + 10 * r);
  fill(src.slice(n - 1, {1}), 100);
  fill(src.slice(2 * n - 1, {1}), 200);

  world()
      .reduce_scatter(host_, Queue::scatter, dst.view(), src.view(), Accumulate::overwrite,
                      DType::f32, {OperationKind::scatter})
      .wait(Queue::compute);

  expect_values(dst, 3.0F + 20.0F * static_cast<float>(me_), me_ == 0 ? 200 : 400);
}

}  // namespace
}  // namespace trireme::test
