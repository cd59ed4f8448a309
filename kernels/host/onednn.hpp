#pragma once
// The one door to oneDNN, for versions 2.6 and 3.x. Matrices are Views of two dims whose strides
// are {ld, 1} or {1, ld}; c is row-major.
// `matmul` is for one thread at a time; `sgemm`, from inside a parallel loop, stays on its thread.
#include "kernels/backend.hpp"

namespace trireme::host::onednn {

// Can this processor multiply bf16 at all, and is that faster than widening to f32 first?
bool multiplies_bf16();
bool multiplies_bf16_fast();

// In f32, has an element the same bits wherever in a product, and on however many threads?
bool same_in_every_place();

// c = a b, or c += a b, by the matmul primitive: a and b of one type, c of that type or f32, bias
// absent or in c's type. Primitives are built once for each shape; `matmul_scratch` is in bytes.
std::size_t matmul_scratch(const View& c, const ConstView& a, const ConstView& b, Accumulate,
                           const ConstView& bias);
void matmul(const View& c, const ConstView& a, const ConstView& b, Accumulate,
            const ConstView& bias, const View& scratch);

// The same in f32 by the BLAS-like call, without bias; it finds its own scratch.
void sgemm(const View& c, const ConstView& a, const ConstView& b, Accumulate);

}  // namespace trireme::host::onednn
