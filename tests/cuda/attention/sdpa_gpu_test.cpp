// Attention through cuDNN where a device answers, beyond what the contract's tests call.
#include <gtest/gtest.h>

#include "kernels/cuda/attention/sdpa.hpp"
#include "kernels/cuda/device.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/cuda/attention/compared.hpp"
#include "tests/support/contract.hpp"

namespace trireme::cuda {
namespace {

constexpr auto forward = Direction::forward, backward = Direction::backward;
constexpr AttentionShape shape{3, 77, 6, 3, 32, 0.2};

struct Results {
  std::vector<double> o, lse, dqkv;
};

// Forward and backward in parts of at most `limit` bytes, on q, k and v that stand packed.
Results attend(Backend& backend, Determinism determinism, std::size_t limit) {
  const auto B = shape.batch, T = shape.tokens, H = shape.heads, G = shape.kv_heads,
             D = shape.head_dim;
  Lab lab(backend, DType::bf16, DType::bf16);
  Sdpa sdpa(determinism, cuda_architecture(0), limit);
  auto* const stream = backend.native(Queue::compute);
  const View qkv = lab.random({B, T, H + 2 * G, D}, 1), d_o = lab.random({B, T, H, D}, 2);
  const View o = lab.fresh({B, T, H, D}), lse = lab.wide_fresh({B, H, T});
  const View dqkv = lab.fresh({B, T, H + 2 * G, D});
  const auto part = [H, G](const View& all, int i) {
    return all.slice(2, i == 0 ? 0 : H + (i - 1) * G, i == 0 ? H : G);
  };
  sdpa.run(stream, kernel::Attention{.o_BTHD = o,
                                     .lse_BHT = lse,
                                     .q_BTHD = part(qkv, 0),
                                     .k_BTGD = part(qkv, 1),
                                     .v_BTGD = part(qkv, 2),
                                     .shape = shape,
                                     .workspace = lab.workspace(sdpa.workspace(shape, forward))});
  sdpa.run(stream,
           kernel::AttentionGrad{.dq_BTHD = part(dqkv, 0),
                                 .dk_BTGD = part(dqkv, 1),
                                 .dv_BTGD = part(dqkv, 2),
                                 .do_BTHD = d_o,
                                 .o_BTHD = o,
                                 .lse_BHT = lse,
                                 .q_BTHD = part(qkv, 0),
                                 .k_BTGD = part(qkv, 1),
                                 .v_BTGD = part(qkv, 2),
                                 .shape = shape,
                                 .workspace = lab.workspace(sdpa.workspace(shape, backward))});
  return {lab.read(o), lab.read(lse), lab.read(dqkv)};
}

TEST(CudaSdpa, InPiecesGivesWhatTheWholeGives) {
  std::string why;
  if (cuda_devices(&why) == 0) GTEST_SKIP() << why;
  if (sdpa_library().empty()) GTEST_SKIP() << "built without cuDNN's frontend";
  const auto backend = open_cuda({.bits = CudaBits::repeatable, .debug = true});
  for (const auto determinism : {Determinism::on, Determinism::off}) {
    const auto whole = attend(*backend, determinism, sdpa_part_limit);
    const auto all = sdpa_workspace(shape, backward, determinism, SIZE_MAX);
    for (const std::size_t limit : {all * 2 / 3, all / 4, std::size_t{1}}) {
      SCOPED_TRACE(limit);
      EXPECT_GT(sdpa_parts(shape, backward, determinism, limit).size(), 1U);
      const auto parts = attend(*backend, determinism, limit);
      expect_same(parts.o, whole.o);
      expect_same(parts.lse, whole.lse);
      expect_same(parts.dqkv, whole.dqkv);
    }
  }
}

}  // namespace
}  // namespace trireme::cuda
