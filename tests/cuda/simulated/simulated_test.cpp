// A simulated device finds what is wrong with a kernel, a stream or a product.
#include <cublasLt.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/backend/cuda.hpp"
#include "kernels/cuda/kernels/start.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/products/blaslt.hpp"
#include "tests/cuda/simulated/memory.hpp"

namespace trireme::cuda {
namespace {

using simulated::fault;
using testing::HasSubstr;

constexpr int threads = 128;
constexpr int tries = 50;

class Simulated : public testing::Test {
 protected:
  ~Simulated() override { simulated::mend(); }
  static cudaStream_t stream() {
    cudaStream_t s = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0), cudaSuccess);
    return s;
  }
  // The fault of a kernel without arguments.
  static std::string fault_of(void (*kernel)()) {
    auto* const s = stream();
    start("kernel", kernel, 1, threads, 0, s);
    EXPECT_NE(cudaStreamSynchronize(s), cudaSuccess);
    EXPECT_THROW(start("kernel", kernel, 1, threads, 0, s), Error);  // it stays
    return fault() ? fault() : "";
  }
  // In how many of `tries` does the kernel sum 0, ..., threads - 1 right?
  static int right(void (*kernel)(int*)) {
    auto* const s = stream();
    int count = 0;
    for (int i = 0; i < tries; ++i) {
      int sum = -1;
      start("sum", kernel, 1, threads, 0, s, &sum);
      EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
      count += sum == threads * (threads - 1) / 2;
    }
    return count;
  }
};

template <bool barrier>
__global__ void sum_in_shared(int* sum) {
  __shared__ int all[threads];
  all[threadIdx.x] = -1;
  __syncthreads();
  all[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (barrier) __syncthreads();
  if (threadIdx.x == 77) *sum = std::accumulate(all, all + threads, 0);
}

TEST_F(Simulated, ABarrierThatIsMissingShows) {
  EXPECT_EQ(right(sum_in_shared<true>), tries);
  EXPECT_LT(right(sum_in_shared<false>), tries / 2);
}

// The lanes of a warp are not in step by themselves, either.
template <bool barrier>
__global__ void sum_in_warps(int* sum) {
  __shared__ int all[threads];
  const int lane = static_cast<int>(threadIdx.x) % warp;
  all[threadIdx.x] = -1;
  __syncthreads();
  all[threadIdx.x] = static_cast<int>(threadIdx.x);
  for (int n = warp / 2; n > 0; n /= 2) {
    if (barrier) __syncwarp();
    if (lane < n) all[threadIdx.x] += all[threadIdx.x + static_cast<unsigned>(n)];
  }
  __syncthreads();
  if (threadIdx.x == 0) *sum = all[0] + all[warp] + all[2 * warp] + all[3 * warp];
}

TEST_F(Simulated, SoDoesOneOfAWarp) {
  EXPECT_EQ(right(sum_in_warps<true>), tries);
  EXPECT_LT(right(sum_in_warps<false>), tries / 2);
}

__global__ void sum_by_shuffles(int* sum) {
  const int all = block_sum<threads>(static_cast<int>(threadIdx.x));
  if (threadIdx.x == 5) *sum = all;
}

TEST_F(Simulated, ShufflesAndBarriersGoTogether) {
  EXPECT_EQ(right(sum_by_shuffles), tries);
}

__global__ void meets_at_two_places() {
  if (threadIdx.x < 64)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void leaves_before_a_shuffle() {
  if (threadIdx.x == 3) return;
  warp_sum(1.0F);
}
__global__ void reads_a_lane_beyond_its_mask() {
  if (threadIdx.x % warp < 4) __shfl_sync(0xfU, 1, 9);
}

TEST_F(Simulated, ABlockMeetsAtOnePlace) {
  EXPECT_THAT(fault_of(meets_at_two_places), HasSubstr("threads of a block meet at"));
}
TEST_F(Simulated, LanesWaitInVainForOneThatLeft) {
  EXPECT_THAT(fault_of(leaves_before_a_shuffle), HasSubstr("waits in vain"));
}
TEST_F(Simulated, LanesReadWithinTheirMask) {
  EXPECT_THAT(fault_of(reads_a_lane_beyond_its_mask), HasSubstr("lane 9 is read"));
}

__global__ void nothing() {}

TEST_F(Simulated, GridsAreWhatADeviceTakes) {
  auto* const s = stream();
  start("nothing", nothing, dim3(3, 65536), 32, 0, s);
  EXPECT_NE(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_THAT(fault(), HasSubstr("3 x 65536"));
}

// A backend on the device, and a block of its memory.
class SimulatedBackend : public Simulated {
 protected:
  std::unique_ptr<Backend> backend = open_cuda({});
  Block block = backend->take(1024, MemoryKind::transient, Queue::compute);
  View values{block.data, DType::f32, {256}};

  void fill(Queue q, const View& v, double value) { backend->put(q, kernel::Fill{v, value}); }
  float value() {
    std::array<float, 256> all{};
    backend->download(Queue::compute, std::as_writable_bytes(std::span(all)), values);
    return all[200];
  }
  ~SimulatedBackend() override { backend->give(block, {}); }
};

TEST_F(SimulatedBackend, TheHostMayNotTouchItsMemory) {
  fill(Queue::compute, values, 1);
  EXPECT_EQ(value(), 1);
  EXPECT_DEATH(block.data[0] = std::byte{1}, "");
}

TEST_F(SimulatedBackend, AWaitThatIsMissingShows) {
  for (const bool waits : {true, false}) {
    int early = 0;
    for (int i = 0; i < tries; ++i) {
      fill(Queue::compute, values, 1);
      const auto before = backend->record(Queue::compute);
      backend->wait(Queue::gather, before);
      fill(Queue::gather, values, 2);
      if (waits) backend->wait(Queue::compute, backend->record(Queue::gather));
      early += value() != 2;
      backend->wait(Queue::compute, backend->record(Queue::gather));
      value();
    }
    EXPECT_EQ(early > 0, !waits) << early;
  }
}

TEST_F(SimulatedBackend, FreshMemoryHoldsNoNumbers) {
  EXPECT_TRUE(std::isnan(value()));
}

// Pinned memory is registered in pieces as it grows, of which a copy may not touch two.
TEST_F(SimulatedBackend, CopiesToPinnedMemoryOfSeveralPieces) {
  constexpr std::size_t bytes = std::size_t{20} << 20;
  backend->take(1, MemoryKind::staging, Queue::compute, Memory::pinned);
  const auto to = backend->take(bytes, MemoryKind::staging, Queue::compute, Memory::pinned);
  const auto from = backend->take(bytes, MemoryKind::transient, Queue::compute, Memory::device);
  const View all(from.data, DType::i32, {static_cast<std::int64_t>(bytes / 4)});
  fill(Queue::compute, all, 7);
  const std::span<std::byte> where(to.data + 100, bytes - 100);
  backend->download(Queue::compute, where, all.slice(0, 25, all.count() - 25));
  std::int32_t last = 0;
  std::memcpy(&last, to.data + bytes - 4, 4);
  EXPECT_EQ(last, 7);
  auto* const stream = static_cast<cudaStream_t>(backend->native(Queue::compute));
  EXPECT_EQ(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToHost, stream),
            cudaErrorInvalidValue);
}

TEST_F(SimulatedBackend, NoMoreMemoryThanThereIs) {
  EXPECT_THROW(backend->take(std::size_t{5} << 30, MemoryKind::transient, Queue::compute), Error);
}

// cuBLASLt's rules.
class SimulatedProduct : public Simulated {
 protected:
  static cublasStatus_t asked(std::int64_t k_of_b, cudaDataType type, cublasLtEpilogue_t epilogue,
                              std::int64_t aux_ld) {
    const auto product = describe_product(CUBLAS_COMPUTE_32F);
    alignas(16) static std::array<float, 64> somewhere;
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere.data());
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld);
    const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
      cublasLtMatrixLayout_t l = nullptr;
      cublasLtMatrixLayoutCreate(&l, type, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), rows);
      return Layout(l);
    };
    const auto a = matrix(8, 3), b = matrix(k_of_b, 5), d = matrix(8, 5);
    cublasLtMatmulHeuristicResult_t found{};
    return cublasLtMatmulAlgoCheck(nullptr, product.get(), a.get(), b.get(), d.get(), d.get(),
                                   &found.algo, &found);
  }
};

TEST_F(SimulatedProduct, IsRefusedWhereItDoesNotFit) {
  EXPECT_EQ(asked(3, CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(asked(4, CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, 0), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(asked(3, CUDA_R_32F, CUBLASLT_EPILOGUE_BIAS, 0), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(asked(3, CUDA_R_16BF, CUBLASLT_EPILOGUE_DGELU, 8), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(asked(3, CUDA_R_16BF, CUBLASLT_EPILOGUE_DGELU, 12), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(asked(3, CUDA_R_16BF, CUBLASLT_EPILOGUE_RELU, 8), CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace trireme::cuda
