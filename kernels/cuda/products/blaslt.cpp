#include "kernels/cuda/products/blaslt.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme::cuda {

void check_blas(cublasStatus_t code, const char* call) {
  require(code == CUBLAS_STATUS_SUCCESS, "cuBLASLt: {} failed: {} ({})", call,
          cublasLtGetStatusString(code), cublasLtGetStatusName(code));
}

Stored transpose_of(const ConstView& v) {
  const auto [m, n] = std::pair(v.extent[0], v.extent[1]);
  if (v.stride[1] == 1 || n == 1) return {n, m, std::max(m == 1 ? n : v.stride[0], n), false};
  expect(v.stride[0] == 1 || m == 1, "one stride of a matrix is 1");
  return {m, n, std::max(n == 1 ? m : v.stride[1], m), true};
}

std::uint32_t alignment(const void* p, std::int64_t ld, DType t) {
  const auto at =
      reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(ld) * bytes_of(t);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(at & (~at + 1), 256));
}

cudaDataType_t type_of(DType t) {
  require(t == DType::f32 || t == DType::bf16, "products on a GPU are of f32 and bf16, not of {}",
          name_of(t));
  return t == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

Descriptor describe_product(cublasComputeType_t arithmetic) {
  cublasLtMatmulDesc_t d = nullptr;
  check_blas(cublasLtMatmulDescCreate(&d, arithmetic, CUDA_R_32F), "cublasLtMatmulDescCreate");
  return Descriptor(d);
}

Layout layout(const Stored& s, cudaDataType_t t) {
  cublasLtMatrixLayout_t l = nullptr;
  check_blas(cublasLtMatrixLayoutCreate(&l, t, static_cast<std::uint64_t>(s.rows),
                                        static_cast<std::uint64_t>(s.columns), s.ld),
             "cublasLtMatrixLayoutCreate");
  return Layout(l);
}

Preference preference() {
  cublasLtMatmulPreference_t p = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&p), "cublasLtMatmulPreferenceCreate");
  return Preference(p);
}

}  // namespace trireme::cuda
