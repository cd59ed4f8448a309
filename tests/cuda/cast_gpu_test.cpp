#include "kernels/cuda/cast.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/device.hpp"

namespace trireme::cuda {
namespace {

template <class T>
struct OnDevice {
  explicit OnDevice(std::int64_t n) : bytes(static_cast<std::size_t>(n) * sizeof(T)) {
    void* p = nullptr;
    check(cudaMalloc(&p, bytes), "cudaMalloc");
    memory.reset(static_cast<T*>(p));
  }
  void put(const std::vector<T>& v) {
    check(cudaMemcpy(memory.get(), v.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::vector<T> get() const {
    std::vector<T> v(bytes / sizeof(T));
    check(cudaMemcpy(v.data(), memory.get(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return v;
  }

  struct Free {
    void operator()(T* p) const { cudaFree(p); }
  };
  std::size_t bytes;
  std::unique_ptr<T, Free> memory;
};

class CudaCast : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda_devices(&why) == 0) GTEST_SKIP() << why;
  }
  // More than one stride of the whole grid, and no multiple of a block.
  static constexpr std::int64_t n = 4096 * 256 + 777;
};

TEST_F(CudaCast, RoundsAsTheHostDoes) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < x.size(); ++i) {
    // Neighbours of ties, both signs, over many binades.
    const auto bits = static_cast<std::uint32_t>(i * 2654435761U) & ~0x7f000000U;
    x[i] = std::bit_cast<float>(bits | (static_cast<std::uint32_t>(i % 97 + 20) << 24));
  }
  x[0] = std::numeric_limits<float>::quiet_NaN();
  x[1] = std::numeric_limits<float>::infinity();
  x[2] = std::bit_cast<float>(0x3f808000U);  // a tie
  OnDevice<float> in(n), wide(n);
  OnDevice<bf16> narrow(n);

  in.put(x);
  cast(nullptr, narrow.memory.get(), in.memory.get(), n);
  cast(nullptr, wide.memory.get(), narrow.memory.get(), n);

  const auto y = narrow.get();
  const auto z = wide.get();
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i].bits, bf16(x[i]).bits) << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(z[i]), static_cast<std::uint32_t>(y[i].bits) << 16) << i;
  }
}

TEST_F(CudaCast, FillsEveryElementAndNoMore) {
  OnDevice<float> x(n + 1);
  x.put(std::vector<float>(n + 1, 7));

  fill(nullptr, x.memory.get(), 2.5F, n);

  const auto y = x.get();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], 2.5F) << i;
  EXPECT_EQ(y[n], 7);
}

}  // namespace
}  // namespace trireme::cuda
