// Products on any number of threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/tiles.hpp"
#include "tests/kernels/matrix.hpp"

namespace trireme {
namespace {

// More than there are processors, too: the bits of 1 thread on each number of them.
template <class Multiply>
void expect_same_on_any_threads(const PaddedMatrix& c, const Multiply& multiply,
                                const std::string& what) {
  const int before = host::threads();
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3, 4, 8, 12, 16}) {
    host::set_threads(threads);
    multiply();
    const auto* const bytes = c.view().data;
    if (first.empty()) first.assign(bytes, bytes + c.view().span_bytes());
    EXPECT_EQ(0, std::memcmp(first.data(), bytes, first.size())) << what << ", threads " << threads;
  }
  host::set_threads(before);
}

// Of a step, with R tokens a chunk: forward, input gradients, leaves of weight gradients; long sums
// of small products, which oneDNN gives to several threads where it is let.
TEST(MatmulThreads, ByShapeOnAnyNumberOfThreads) {
  struct Shape3 {
    std::int64_t M, N, K;
    Major a, b;
    bool bias = false;
  };
  for (const std::int64_t R : {16, 64}) {
    for (const auto& [M, N, K, a_major, b_major, bias] :
         std::vector<Shape3>{{R, 512, 256, Major::rows, Major::columns, true},
                             {R, 128, 4096, Major::rows, Major::columns},
                             {R, 5003, 128, Major::rows, Major::columns},  // a head
                             {R, 128, 5003, Major::rows, Major::rows},
                             {R, 256, 1024, Major::rows, Major::rows},
                             {512, 256, R, Major::columns, Major::rows},
                             {1024, 1024, R, Major::columns, Major::rows},
                             {5003, 128, R, Major::columns, Major::rows}}) {
      for (const auto& [in, out] : types) {
        if (in == DType::bf16 && !host::bf16_products()) continue;
        if (bias && in != out) continue;
        const PaddedMatrix a(M, K, in, a_major, 0, 1), b(K, N, in, b_major, 0, 2),
            c(M, N, out, Major::rows, 0, 3), added(1, N, out, Major::rows, 0, 4);
        Epilogue epilogue;
        if (bias) epilogue.bias_N = ConstView(added.view()).reshaped({N});
        const kernel::Matmul product{.c_MN = c.view(),
                                     .a_MK = a.view(),
                                     .b_KN = b.view(),
                                     .epilogue = epilogue,
                                     .order = SumOrder::by_shape};
        expect_same_on_any_threads(
            c, [&] { host::run(product, scratch_of()); },
            fmt::format("[{}, {}, {}] {} -> {}", M, N, K, name_of(in), name_of(out)));
      }
    }
  }
}

// As processors with AVX-512 take them, on any: the sums of double, on any number of threads.
TEST(MatmulThreads, BlocksOnAnyNumberOfThreads) {
  for (const auto kind : {host::Block::primitive, host::Block::sgemm}) {
    for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{1, 7, 5},
                                  {64, 128, 4096},
                                  {67, 1090, 1030},
                                  {1090, 67, 64}}) {
      for (const bool add : {false, true}) {
        const bool bias = kind == host::Block::primitive && !add;
        const PaddedMatrix a(M, K, DType::f32, Major::columns, 3, 1),
            b(K, N, DType::f32, Major::rows, 0, 2), before(M, N, DType::f32, Major::rows, 0, 3),
            added(1, N, DType::f32, Major::rows, 0, 4);
        PaddedMatrix c(M, N, DType::f32, Major::rows, 0, 3);
        const host::Product product{c.view(), a.view(), b.view(),
                                    add ? Accumulate::add : Accumulate::overwrite,
                                    bias ? ConstView(added.view()).reshaped({N}) : ConstView{}};
        const auto multiply = [&] {
          std::ranges::copy(before.bytes(), c.bytes().begin());
          host::multiply_in_blocks(product, kind);
        };
        expect_same_on_any_threads(c, multiply, fmt::format("[{}, {}, {}]", M, N, K));
        for (std::int64_t i = 0; i < M; i += 13) {
          for (std::int64_t j = 0; j < N; ++j) {
            double sum = add ? before.at(i, j) : bias ? added.at(0, j) : 0, size = std::abs(sum);
            for (std::int64_t k = 0; k < K; ++k) {
              sum += a.at(i, k) * b.at(k, j);
              size += std::abs(a.at(i, k) * b.at(k, j));
            }
            ASSERT_NEAR(c.load(i * N + j), sum, static_cast<double>(K + 3) * std::ldexp(size, -24))
                << i << "," << j << " of [" << M << "," << N << "," << K << "]";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
