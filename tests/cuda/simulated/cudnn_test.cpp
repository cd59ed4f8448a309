// A cuDNN whose engines need more workspace than plans count: attention goes on, in smaller parts
// or by the own kernel, and says so once.
#include "tests/cuda/simulated/cudnn.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "kernels/cuda/backend/cuda.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "tests/cuda/attention/compared.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::cuda {
namespace {

constexpr AttentionShape shape{3, 77, 6, 3, 32, 0.2};

struct Attended {
  std::vector<double> o, dq, dk, dv;
  std::string said;
};

// Twice forward and backward with engines that need so many times the workspace.
Attended attend(double appetite) {
  const auto B = shape.batch, T = shape.tokens, H = shape.heads, G = shape.kv_heads,
             D = shape.head_dim;
  ScratchFolder folder;
  simulated::appetite() = appetite;
  log_to(folder.path() / "log");
  const auto backend = open_cuda({.bits = CudaBits::repeatable});
  Lab lab(*backend, DType::bf16, DType::bf16);
  const View q = lab.random({B, T, H, D}, 1), k = lab.random({B, T, G, D}, 2),
             v = lab.random({B, T, G, D}, 3), d_o = lab.random({B, T, H, D}, 4);
  const View o = lab.fresh({B, T, H, D}), lse = lab.wide_fresh({B, H, T});
  const View dq = lab.fresh({B, T, H, D}), dk = lab.fresh({B, T, G, D}),
             dv = lab.fresh({B, T, G, D});
  const auto workspace = [&](Direction d) {
    return lab.workspace(backend->attention_bytes(shape, DType::bf16, d).workspace);
  };
  for (int i = 0; i < 2; ++i) {
    backend->put(Queue::compute, kernel::Attention{.o_BTHD = o,
                                                   .lse_BHT = lse,
                                                   .q_BTHD = q,
                                                   .k_BTGD = k,
                                                   .v_BTGD = v,
                                                   .shape = shape,
                                                   .workspace = workspace(Direction::forward)});
    backend->put(Queue::compute,
                 kernel::AttentionGrad{.dq_BTHD = dq,
                                       .dk_BTGD = dk,
                                       .dv_BTGD = dv,
                                       .do_BTHD = d_o,
                                       .o_BTHD = o,
                                       .lse_BHT = lse,
                                       .q_BTHD = q,
                                       .k_BTGD = k,
                                       .v_BTGD = v,
                                       .shape = shape,
                                       .workspace = workspace(Direction::backward)});
  }
  Attended a{lab.read(o), lab.read(dq), lab.read(dk), lab.read(dv), {}};
  log_to({});
  simulated::appetite() = 1;
  a.said = read_text(folder / "log");
  return a;
}

void expect_all_same(const Attended& got, const Attended& want) {
  expect_same(got.o, want.o);
  expect_same(got.dq, want.dq);
  expect_same(got.dk, want.dk);
  expect_same(got.dv, want.dv);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(SimulatedCudnn, ThatNeedsMoreWorkspaceGetsSmallerPieces) {
  const auto known = attend(1), hungry = attend(3);
  EXPECT_EQ(count(known.said, "workspace"), 0U) << known.said;
  expect_all_same(hungry, known);
  EXPECT_EQ(count(hungry.said, "smaller parts are computed"), 1U) << hungry.said;
}

TEST(SimulatedCudnn, ThatNeedsTooMuchForAnyPieceLeavesItToTheOwnKernel) {
  const auto known = attend(1), greedy = attend(1e9);
  expect_all_same(greedy, known);
  EXPECT_EQ(count(greedy.said, "Trireme's own kernel computes it"), 1U) << greedy.said;
}

}  // namespace
}  // namespace trireme::cuda
