#include "kernels/cuda/products/plan.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme::cuda {

static std::int32_t scale_mode(fp8::Scales s) {
  return s == fp8::Scales::rows ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

Planner::~Planner() {
  if (handle_) cublasLtDestroy(handle_);
}

Plan Planner::describe(const Key& k, const Pointers& at) {
  if (!handle_) check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
  Plan p;
  p.product = describe_product(!k.of_fp8() && k.in == DType::f32 && tf32_ == Tf32::on
                                   ? CUBLAS_COMPUTE_32F_FAST_TF32
                                   : CUBLAS_COMPUTE_32F);
  const auto op = [](const Stored& s) { return s.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, op(k.left));
  set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, op(k.right));
  set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(k));
  const auto operand_type = k.of_fp8() ? CUDA_R_8F_E4M3 : type_of(k.in);
  p.left = layout(k.left, operand_type);
  p.right = layout(k.right, operand_type);
  p.out = layout(k.out, type_of(k.result));
  if (k.of_fp8()) {
    set(p.product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(*k.left_scales));
    set(p.product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(*k.right_scales));
    if (k.bias)
      set(p.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
          static_cast<std::int32_t>(type_of(k.result)));
  }
  point(k, p, at);
  return p;
}

std::vector<cublasLtMatmulAlgo_t> Planner::algorithms(const Key& k, const Plan& p) const {
  const auto wishes = preference();
  set(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, lent_bytes);
  set(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, k.left_alignment);
  set(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, k.right_alignment);
  set(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, k.out_alignment);
  set(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, k.out_alignment);
  // Partial products (split K) must be added in f32, not in the result's type.
  if (k.result == DType::bf16)
    set(wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  std::vector<cublasLtMatmulHeuristicResult_t> found(5);
  int n = 0;
  const auto code = cublasLtMatmulAlgoGetHeuristic(
      handle_, p.product.get(), p.left.get(), p.right.get(), p.out.get(), p.out.get(), wishes.get(),
      static_cast<int>(found.size()), found.data(), &n);
  const bool fused = k.fused != Fused::nothing;
  const bool unsupported =
      code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE;
  if (fused && unsupported) return {};
  if (k.of_fp8() && unsupported)
    n = 0;
  else
    check_blas(code, "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(n));
  std::vector<cublasLtMatmulAlgo_t> working;
  for (const auto& f : found)
    if (f.state == CUBLAS_STATUS_SUCCESS && works(f.algo, p)) working.push_back(f.algo);
  require(!working.empty() || fused, "cuBLASLt has no algorithm for [{}, {}] by [{}, {}] in {}",
          k.out.columns, k.left.transposed ? k.left.rows : k.left.columns,
          k.left.transposed ? k.left.rows : k.left.columns, k.out.rows,
          k.of_fp8() ? "fp8. Set precision.products = \"compute\"" : name_of(k.in));
  return working;
}

bool Planner::works(const cublasLtMatmulAlgo_t& algorithm, const Plan& p) const {
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(handle_, p.product.get(), p.left.get(), p.right.get(), p.out.get(),
                                 p.out.get(), &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= lent_bytes;
}

void Planner::run(const Plan& p, const cublasLtMatmulAlgo_t& algorithm, const Pointers& at,
                  Accumulate how, View workspace, cudaStream_t stream) const {
  const float alpha = 1, beta = how == Accumulate::add ? 1 : 0;
  check_blas(cublasLtMatmul(handle_, p.product.get(), &alpha, at.left, p.left.get(), at.right,
                            p.right.get(), &beta, at.out, p.out.get(), at.out, p.out.get(),
                            &algorithm, workspace.data, lent_bytes, stream),
             "cublasLtMatmul");
}

void point(const Key& k, const Plan& p, const Pointers& at) {
  if (at.left_scale) set(p.product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at.left_scale);
  if (at.right_scale) set(p.product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at.right_scale);
  if (at.vector) set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.vector);
  if (!at.aux) return;
  set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.aux);
  set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, k.aux_ld);
}

}  // namespace trireme::cuda
