#pragma once
// The only interface to oneDNN, for versions 2.6 and 3.x. Matrices are views with two dims whose
// strides are {ld, 1} or {1, ld}; c is row-major.
//
// `matmul` may be called by one thread at a time and uses all threads. Any thread may call
// `matmul_alone`, and `sgemm` from inside a parallel loop. These two functions run on the calling
// thread only.
#include "kernels/operations.hpp"

namespace trireme::host {

// One matrix product: c = a b + bias, or c += a b + bias. `bias` has the type of c and may be
// absent.
struct Product {
  View c;
  ConstView a, b;
  Accumulate how = Accumulate::overwrite;
  ConstView bias{};

  Product rows(std::int64_t begin, std::int64_t n) const {
    return {c.slice(0, begin, n), a.slice(0, begin, n), b, how, bias};
  }
  Product columns(std::int64_t begin, std::int64_t n) const {
    return {c.slice(1, begin, n), a, b.slice(1, begin, n), how,
            bias ? bias.slice(0, begin, n) : bias};
  }
};

namespace onednn {

// Returns true if this processor can multiply bf16 at all.
bool multiplies_bf16();
// Returns true if multiplying bf16 is faster on this processor than converting to f32 first.
bool multiplies_bf16_fast();

// Returns oneDNN's version and the instruction set that it may use on this machine, e.g. "oneDNN
// 2.6.3 for avx2".
std::string version_and_instructions();

// Returns true if the bits of an element in an f32 product depend neither on its position in the
// product nor on the number of threads.
bool same_in_every_place();

// Returns the bytes of scratch that `matmul` needs for this product.
std::size_t matmul_scratch(const Product&);
// Multiplies with oneDNN's matmul primitive. a and b have the same type, and c has that type or
// f32. Primitives are built once for each shape and cached.
void matmul(const Product&, const View& scratch);

// Multiplies like `matmul`, but on the calling thread only. The scratch belongs to the thread and
// is kept between calls.
void matmul_alone(const Product&);

// Multiplies in f32 with oneDNN's BLAS-like function, without a bias. oneDNN allocates the scratch.
void sgemm(const View& c, const ConstView& a, const ConstView& b, Accumulate);

}  // namespace onednn
}  // namespace trireme::host
