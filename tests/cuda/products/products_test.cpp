#include <gtest/gtest.h>

#include "kernels/cuda/device.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

// Otherwise the contract's tests of epilogues, wherever they may be part of the product, would
// compare the same kernels twice.
TEST(CudaProducts, HaveEpiloguesAsPartOfThem) {
  std::string why;
  if (cuda_devices(&why) == 0) GTEST_SKIP() << why;
  const auto backend = open_cuda({.epilogues = Epilogues::always});
  const Workspace workspace(*backend);
  Lab lab(*backend, DType::bf16, DType::bf16);
  constexpr std::int64_t M = 64, N = 48, K = 32;
  const View a_MK = lab.random({M, K}, 1), b_KN = lab.random({K, N}, 2);
  const auto product = [&](View c, ConstView a, const Epilogue& e) {
    const auto before = cuda_fused_products(*backend);
    backend->put(Queue::compute, kernel::Matmul{.c_MN = c, .a_MK = a, .b_KN = b_KN, .epilogue = e});
    return cuda_fused_products(*backend) - before;
  };

  EXPECT_EQ(product(lab.fresh({M, N}), a_MK, {}), 0);
  EXPECT_EQ(product(lab.fresh({M, N}), a_MK,
                    {.bias_N = lab.random({N}, 3), .activated_MN = lab.fresh({M, N})}),
            1);
  EXPECT_EQ(product(lab.fresh({M, N}), a_MK, {.activated_at_MN = lab.random({M, N}, 4)}), 1);
  EXPECT_EQ(product(lab.wide_fresh({M, N}), lab.random({K, M}, 5).transposed(),
                    {.row_sum_M = lab.wide_fresh({M})}),
            1);
}

}  // namespace
}  // namespace trireme
