#pragma once
// Wrappers of one warp's tensor core instructions and asynchronous copies on sm_80 or newer (PTX
// ISA: mma.m16n8k16, ldmatrix, cp.async). All lanes of the warp must call a function together. The
// comments use g = lane / 4 and c = lane % 4.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/kernels/mma_operands.cuh"
#include "lib/base/dtype.hpp"

namespace trireme::cuda {

// Adds the product of `a` and a 16 x 8 right operand to `sum`. Word b0 holds rows 2c and 2c + 1 of
// column g. Word b1 holds rows 2c + 8 and 2c + 9 of the same column.
__device__ inline void add_product(Sums& sum, const LeftOperand& a, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum.v[0]), "+f"(sum.v[1]), "+f"(sum.v[2]), "+f"(sum.v[3])
      : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1));
}

// Address of bf16 elements in shared memory.
struct SharedAddress {
  unsigned byte;
  __device__ SharedAddress operator+(int elements) const {
    return {byte + static_cast<unsigned>(elements) * unsigned{sizeof(bf16)}};
  }
};
__device__ inline SharedAddress shared_address(bf16* p) {
  return {static_cast<unsigned>(__cvta_generic_to_shared(p))};
}

// Loads four 8 x 8 matrices from shared memory. Lane l passes the address of row l % 8 of matrix
// l / 8, aligned to 16 bytes. w[i] receives columns 2c and 2c + 1 of row g of matrix i.
__device__ inline void load_matrices(unsigned (&w)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "r"(row.byte)
               : "memory");
}
// Loads four transposed 8 x 8 matrices: w[i] receives rows 2c and 2c + 1 of column g of matrix i.
__device__ inline void load_transposed(unsigned (&w)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "r"(row.byte)
               : "memory");
}

// Starts an asynchronous copy of 16 bytes to shared memory. If `there` is false, fills the 16 bytes
// with zeros and does not read `from`.
__device__ inline void start_copy(SharedAddress to, const bf16* from, bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to.byte), "l"(from), "r"(bytes)
               : "memory");
}
// Commits the copies that this thread has started as one group.
__device__ inline void end_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
// Waits until at most `groups` of this thread's groups of copies are pending.
template <int groups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}

}  // namespace trireme::cuda
