#include "kernels/fenced/fenced.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lib/tensor/tensor.hpp"

namespace trireme {

static std::vector<float> read(Backend& b, const Tensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.shape().count()));
  b.download(Queue::compute, std::as_writable_bytes(std::span(values)), t.view());
  return values;
}

TEST(Fenced, HostAccessToDeviceMemoryFaults) {
  Fenced fenced(1);
  const auto x = Tensor::empty(fenced, {4}, DType::f32, MemoryKind::transient);
  fenced.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});

  EXPECT_DEATH(*reinterpret_cast<volatile float*>(x.view().data) = 1, "");
}

TEST(Fenced, FreshMemoryIsNaN) {
  Fenced fenced(1);
  const auto x = Tensor::empty(fenced, {4}, DType::f32, MemoryKind::transient);

  EXPECT_TRUE(std::isnan(read(fenced, x)[2]));
}

TEST(Fenced, AMissingWaitShows) {
  Fenced fenced(1);
  const auto x = Tensor::empty(fenced, {4}, DType::f32, MemoryKind::transient);
  const auto y = Tensor::empty(fenced, {4}, DType::f32, MemoryKind::transient);
  fenced.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});
  read(fenced, x);

  fenced.wait(Queue::gather, fenced.record(Queue::compute));
  fenced.put(Queue::gather, kernel::Fill{.dst = x.view(), .value = 2});
  fenced.put(Queue::compute, kernel::Copy{.dst = y.view(), .src = x.view()});
  EXPECT_EQ(read(fenced, y)[0], 1);

  fenced.wait(Queue::compute, fenced.record(Queue::gather));
  fenced.put(Queue::compute, kernel::Copy{.dst = y.view(), .src = x.view()});
  EXPECT_EQ(read(fenced, y)[0], 2);
}

TEST(Fenced, UploadCopiesItsBytesAtOnce) {
  Fenced fenced(1);
  const auto x = Tensor::empty(fenced, {2}, DType::f32, MemoryKind::transient);
  std::vector<float> values{1, 2};

  fenced.upload(Queue::compute, x.view(), std::as_bytes(std::span(values)));
  values = {7, 7};

  EXPECT_EQ(read(fenced, x), (std::vector<float>{1, 2}));
}

}  // namespace trireme
