#pragma once
// The one door to oneDNN, for versions 2.6 and 3.x. Matrices are Views of two dims whose strides
// are {ld, 1} or {1, ld}; c is row-major.
// `matmul` is for one thread at a time; `matmul_alone` always, `sgemm` from inside a parallel loop
// are for any, on which they stay.
#include "kernels/operations.hpp"

namespace trireme::host {

// c = a b + bias, or c += a b + bias; bias, in c's type, may be absent.
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

// Can this processor multiply bf16 at all, and is that faster than widening to f32 first?
bool multiplies_bf16();
bool multiplies_bf16_fast();

// E.g. "oneDNN 2.6.3 for avx2": the version in use and the instructions that it may use here.
std::string version_and_instructions();

// In f32, has an element the same bits wherever it is in a product and on any number of threads?
bool same_in_every_place();

// By the matmul primitive: a and b of one type, c of that type or f32. Primitives are built once
// for each shape; `matmul_scratch` is in bytes.
std::size_t matmul_scratch(const Product&);
void matmul(const Product&, const View& scratch);

// The same on the calling thread alone, with scratch that the thread keeps.
void matmul_alone(const Product&);

// The same in f32 by the BLAS-like call, without bias; it finds its own scratch.
void sgemm(const View& c, const ConstView& a, const ConstView& b, Accumulate);

}  // namespace onednn
}  // namespace trireme::host
