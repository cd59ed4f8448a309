// Products in fp8 that cuBLASLt's documentation rules out.
#include <gmock/gmock.h>

#include "kernels/cuda/device.hpp"
#include "lib/base/error.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/cuda/simulated/streams.hpp"
#include "tests/support/message_of.hpp"

namespace trireme::cuda {
namespace {

// Returns the message with which a product of N columns is refused, or an empty text.
std::string refusal(std::int64_t N) {
  simulated::mend();
  const auto backend = open_cuda({});
  const Workspace workspace(*backend);
  constexpr std::int64_t M = 16, K = 128;
  std::vector<Tensor> memory;
  const auto room = [&](DType t, const Shape& s) {
    memory.push_back(Tensor::empty(*backend, s, t, MemoryKind::transient));
    backend->put(Queue::compute, kernel::Fill{.dst = memory.back().view(), .value = 0});
    return memory.back().view();
  };
  const auto matrix = [&](std::int64_t rows) {
    constexpr auto scales = fp8::Scales::rows;
    return fp8::Matrix<ConstView>{room(DType::i32, fp8::code_shape(rows, K)),
                                  room(DType::f32, fp8::scale_shape(scales, rows, K)), scales};
  };
  const kernel::Fp8Matmul product{
      .c_MN = room(DType::bf16, {M, N}), .a_MK = matrix(M), .b_NK = matrix(N)};
  return message_of<Error>([&] { backend->put(Queue::compute, product); });
}

TEST(SimulatedFp8, ARefusedWidthNamesTheKey) {
  EXPECT_EQ(refusal(16), "");
  EXPECT_THAT(refusal(12), testing::HasSubstr("Set precision.products = \"compute\""));
}

}  // namespace
}  // namespace trireme::cuda
