#pragma once
// cuBLASLt's descriptors as RAII values, and how it sees a matrix.
#include <cublasLt.h>

#include <compare>
#include <memory>
#include <type_traits>

#include "lib/base/view.hpp"

namespace trireme::cuda {

// Throws Error with cuBLASLt's words unless all went well.
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

// A matrix as cuBLASLt stores them, by columns: rows x columns, `ld` elements between columns, used
// as it is or transposed.
struct Stored {
  std::int64_t rows, columns, ld;
  bool transposed;
  auto operator<=>(const Stored&) const = default;
};

// The transpose of a view, which by columns is the view itself where its rows are dense.
Stored transpose_of(const ConstView&);
// The largest power of two, up to 256 bytes, that divides the address and the bytes of `ld`.
std::uint32_t alignment(const void*, std::int64_t ld, DType);

cudaDataType_t type_of(DType);
Descriptor describe_product(cublasComputeType_t);
Layout layout(const Stored&, DType);
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
