#pragma once
// Tensor cores of a simulated device: operands as PTX lays them out, products in f32. Copies arrive
// when they are waited for.
#include <cuda_runtime.h>

#include <bit>
#include <cstring>

#include "kernels/cuda/kernels/mma_operands.cuh"
#include "lib/base/dtype.hpp"
#include "tests/cuda/simulated/copies.hpp"

namespace trireme::cuda {

inline float half_of(unsigned pair, unsigned which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xffff0000U);
}

inline void add_product(Sums& sum, const LeftOperand& a, unsigned b0, unsigned b1,
                        const simulated::Where& where = simulated::Where::current()) {
  struct Brought {
    LeftOperand a;
    unsigned b[2];
  };
  const auto all = simulated::meet_with(Brought{a, {b0, b1}}, where);
  const unsigned lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned upper = i / 2, column = 2 * c + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned part = k / 8, owner = k % 8 / 2;
      sum.v[i] += half_of(all[4 * g + owner].a.w[2 * part + upper], k % 2) *
                  half_of(all[4 * column + owner].b[part], k % 2);
    }
  }
}

using SharedAddress = bf16*;
inline SharedAddress shared_address(bf16* p) {
  return p;
}

inline void load_matrices(unsigned (&w)[4], SharedAddress row,
                          const simulated::Where& where = simulated::Where::current()) {
  const auto rows = simulated::meet_with(row, where);
  const unsigned lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  for (unsigned i = 0; i < 4; ++i) std::memcpy(&w[i], rows[8 * i + g] + 2 * c, 4);
}
inline void load_transposed(unsigned (&w)[4], SharedAddress row,
                            const simulated::Where& where = simulated::Where::current()) {
  const auto rows = simulated::meet_with(row, where);
  const unsigned lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const bf16 two[2] = {rows[8 * i + 2 * c][g], rows[8 * i + 2 * c + 1][g]};
    std::memcpy(&w[i], two, 4);
  }
}

inline void start_copy(SharedAddress to, const bf16* from, bool there) {
  simulated::start_copy(threadIdx.x, to, there ? from : nullptr);
}
inline void end_copies() {
  simulated::end_copies(threadIdx.x);
}
template <int groups>
void wait_for_copies() {
  simulated::wait_for_copies(threadIdx.x, groups);
}

}  // namespace trireme::cuda
