// Tensor cores of the simulated device: fragments as PTX numbers them, and copies that arrive when
// they are waited for.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/kernels/mma.cuh"
#include "kernels/cuda/kernels/start.cuh"
#include "tests/cuda/simulated/memory.hpp"

namespace trireme::cuda {
namespace {

constexpr int rows = 16, columns = 8, depth = 16, warp_threads = 32;

bf16 small(int i) {
  return bf16(static_cast<float>(i % 13) - 6.0F);
}

// The registers of lane `lane`, as the tables "Matrix Fragments for mma.m16n8k16" of the PTX ISA
// give them: row and column of element i of A, B and C.
struct Place {
  int row, column;
};
Place of_a(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {i < 2 || (i >= 4 && i < 6) ? group : group + 8, in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
Place of_b(int lane, int i) {
  return {lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane >> 2};
}
Place of_c(int lane, int i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}
unsigned pair(bf16 first, bf16 second) {
  return first.bits | static_cast<unsigned>(second.bits) << 16;
}

struct Matrices {
  bf16 a[rows][depth], b[depth][columns];
  float c[rows][columns];
};

__global__ void multiply(Matrices* m) {
  const int lane = static_cast<int>(threadIdx.x);
  LeftOperand a{};
  unsigned b[2];
  const auto a_at = [&](int i) { return m->a[of_a(lane, i).row][of_a(lane, i).column]; };
  const auto b_at = [&](int i) { return m->b[of_b(lane, i).row][of_b(lane, i).column]; };
  for (int w = 0; w < 4; ++w) a.w[w] = pair(a_at(2 * w), a_at(2 * w + 1));
  for (int w = 0; w < 2; ++w) b[w] = pair(b_at(2 * w), b_at(2 * w + 1));
  Sums c{{1, 1, 1, 1}};
  add_product(c, a, b[0], b[1]);
  for (int i = 0; i < 4; ++i) m->c[of_c(lane, i).row][of_c(lane, i).column] = c.v[i];
}

class Mma : public testing::Test {
 protected:
  ~Mma() override { simulated::mend(); }
  template <class T>
  static bool runs(void (*kernel)(T*), T* argument, std::size_t shared = 0) {
    cudaStream_t s = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0), cudaSuccess);
    start("kernel", kernel, 1, warp_threads, shared, s, argument);
    return cudaStreamSynchronize(s) == cudaSuccess;
  }
};

TEST_F(Mma, MultipliesFragmentsAsTheyAreNumbered) {
  Matrices m{};
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < depth; ++k) m.a[r][k] = small(7 * r + 3 * k);
  for (int k = 0; k < depth; ++k)
    for (int c = 0; c < columns; ++c) m.b[k][c] = small(5 * k + 11 * c);
  ASSERT_TRUE(runs(multiply, &m));
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      float want = 1;
      for (int k = 0; k < depth; ++k)
        want += static_cast<float>(m.a[r][k]) * static_cast<float>(m.b[k][c]);
      EXPECT_EQ(m.c[r][c], want) << r << ' ' << c;
    }
}

// Four 8 x 8 matrices of which element [r][c] is 64 m + 8 r + c, exact in bf16 up to 256.
struct Loaded {
  unsigned plain[warp_threads][4], transposed[warp_threads][4];
};
__global__ void load_both(Loaded* to) {
  auto* const shared = reinterpret_cast<bf16*>(block_memory());
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += warp_threads) shared[i] = bf16(static_cast<float>(i));
  __syncthreads();
  const auto row = shared_address(shared) + lane * 8;
  load_matrices(to->plain[lane], row);
  load_transposed(to->transposed[lane], row);
}

TEST_F(Mma, LoadsMatricesAndTheirTransposes) {
  Loaded got{};
  ASSERT_TRUE(runs(load_both, &got, 256 * sizeof(bf16)));
  const auto number = [](int m, int r, int c) {
    return bf16(static_cast<float>(64 * m + 8 * r + c));
  };
  for (int lane = 0; lane < warp_threads; ++lane)
    for (int m = 0; m < 4; ++m) {
      const int g = lane / 4, c = lane % 4 * 2;
      EXPECT_EQ(got.plain[lane][m], pair(number(m, g, c), number(m, g, c + 1)));
      EXPECT_EQ(got.transposed[lane][m], pair(number(m, c, g), number(m, c + 1, g)));
    }
}

struct Copied {
  alignas(16) bf16 from[warp_threads * 8];
  bf16 to[warp_threads * 8];
};
template <int left>
__global__ void copy_two(Copied* x) {
  auto* const shared = reinterpret_cast<bf16*>(block_memory());
  const int at = static_cast<int>(threadIdx.x) * 8;
  start_copy(shared_address(shared) + at, x->from + at, threadIdx.x != 3);
  end_copies();
  wait_for_copies<left>();
  for (int i = 0; i < 8; ++i) x->to[at + i] = shared[at + i];
  wait_for_copies<0>();
}

TEST_F(Mma, CopiesArriveWhenTheyAreWaitedFor) {
  Copied x{};
  for (int i = 0; i < warp_threads * 8; ++i) x.from[i] = small(i);
  ASSERT_TRUE(runs(copy_two<0>, &x, sizeof x.to));
  for (int i = 0; i < warp_threads * 8; ++i)
    EXPECT_EQ(static_cast<float>(x.to[i]), i / 8 == 3 ? 0 : static_cast<float>(x.from[i]));
  ASSERT_TRUE(runs(copy_two<1>, &x, sizeof x.to));
  // Fresh memory is NaNs in f32, whose upper halves are NaNs in bf16.
  for (int i = 1; i < warp_threads * 8; i += 2)
    EXPECT_TRUE(std::isnan(static_cast<float>(x.to[i]))) << i;
}

__global__ void forget(Copied* x) {
  start_copy(shared_address(reinterpret_cast<bf16*>(block_memory())), x->from, true);
}
TEST_F(Mma, ACopyThatNobodyWaitsForIsAFault) {
  Copied x{};
  EXPECT_FALSE(runs(forget, &x, sizeof x.to));
}

}  // namespace
}  // namespace trireme::cuda
