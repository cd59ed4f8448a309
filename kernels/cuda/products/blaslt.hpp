#pragma once
// RAII types for cuBLASLt's descriptors, and the conversion of views to its matrices.
#include <cublasLt.h>

#include <compare>
#include <memory>
#include <type_traits>

#include "lib/base/view.hpp"

namespace trireme::cuda {

// Throws Error, with cuBLASLt's description, if the status is not success.
void check_blas(cublasStatus_t, const char* call);

template <class T, cublasStatus_t (*destroy)(T)>
struct Destroy {
  using pointer = T;
  void operator()(T p) const { destroy(p); }
};
using Descriptor = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>,
                                   Destroy<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>,
                               Destroy<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                    Destroy<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

// A matrix in cuBLASLt's column-major form: rows x columns, with `ld` elements from one column to
// the next. `transposed` means that the product uses its transpose.
struct Stored {
  std::int64_t rows, columns, ld;
  bool transposed;
  auto operator<=>(const Stored&) const = default;
};

// Returns the transpose of a view. If the view's rows are dense, the transpose in column-major form
// uses the same memory.
Stored transpose_of(const ConstView&);
// Returns the largest power of two, up to 256, that divides the address and the size of `ld`
// elements in bytes.
std::uint32_t alignment(const void*, std::int64_t ld, DType);

cudaDataType_t type_of(DType);
Descriptor describe_product(cublasComputeType_t);
Layout layout(const Stored&, cudaDataType_t);
Preference preference();

template <class T>
void set(const Descriptor& d, cublasLtMatmulDescAttributes_t what, T value) {
  check_blas(cublasLtMatmulDescSetAttribute(d.get(), what, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Preference& p, cublasLtMatmulPreferenceAttributes_t what, T value) {
  check_blas(cublasLtMatmulPreferenceSetAttribute(p.get(), what, &value, sizeof value),
             "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace trireme::cuda
