#include "kernels/cuda/products/product.hpp"

#include <algorithm>

namespace trireme::cuda {

Fused wanted(const Epilogue& e) {
  const bool gelu = e.activation == Activation::gelu;
  return gelu && e.activated_MN      ? Fused::gelu
         : gelu && e.activated_at_MN ? Fused::slope
         : e.row_sum_M               ? Fused::sums
                                     : Fused::nothing;
}

// Returns the result of the product. If GELU is fused, this is the activation, and c is an
// auxiliary output.
static View out_of(const Call& p, Fused f) {
  return f == Fused::gelu ? p.epilogue.activated_MN : p.c_MN;
}
static ConstView aux_of(const Call& p, Fused f) {
  return f == Fused::gelu ? p.c_MN : f == Fused::slope ? p.epilogue.activated_at_MN : ConstView{};
}
std::byte* sums_of(const Call& p) {
  return p.adds() ? p.workspace.data + sums_at : p.epilogue.row_sum_M.data;
}

Key key_of(const Call& p, Fused fused) {
  const auto out = out_of(p, fused);
  const auto aux = aux_of(p, fused);
  Key k{.left = transpose_of(p.b_KN),
        .right = transpose_of(p.a_MK),
        .out = transpose_of(out),
        .in = p.a_MK.dtype,
        .result = p.c_MN.dtype,
        .add = p.adds(),
        .bias = static_cast<bool>(p.epilogue.bias_N),
        .fused = fused,
        .aux_ld = aux ? transpose_of(aux).ld : 0,
        .left_alignment = 0,
        .right_alignment = 0,
        .out_alignment = 0,
        .aux_alignment = 0,
        .vector_alignment = 0};
  k.left_alignment = alignment(p.b_KN.data, k.left.ld, p.b_KN.dtype);
  k.right_alignment = alignment(p.a_MK.data, k.right.ld, p.a_MK.dtype);
  k.out_alignment = alignment(out.data, k.out.ld, out.dtype);
  if (aux) k.aux_alignment = alignment(aux.data, k.aux_ld, aux.dtype);
  if (const auto* v = pointers_of(p, fused).vector) k.vector_alignment = alignment(v, 0, k.result);
  return k;
}

Pointers pointers_of(const Call& p, Fused fused) {
  const auto aux = aux_of(p, fused);
  return {p.b_KN.data, p.a_MK.data, out_of(p, fused).data, const_cast<std::byte*>(aux.data),
          fused == Fused::sums ? static_cast<void*>(sums_of(p))
                               : const_cast<std::byte*>(p.epilogue.bias_N.data)};
}

cublasLtEpilogue_t epilogue_of(const Key& k) {
  switch (k.fused) {
    case Fused::nothing:
      return k.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Fused::gelu:
      return k.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Fused::slope:
      return CUBLASLT_EPILOGUE_DGELU;
    case Fused::sums:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool may_fuse(const Call& p, Fused fused) {
  if (fused == Fused::nothing) return false;
  if (fused == Fused::sums)  // the sums have c's type and replace the bias
    return p.epilogue.row_sum_M.dtype == p.c_MN.dtype && !p.epilogue.bias_N &&
           static_cast<std::size_t>(p.c_MN.extent[0]) * sizeof(float) <= sums_bytes;
  if (p.c_MN.dtype != DType::bf16) return false;  // cuBLASLt's GELU may be coarser than f32
  const auto aux = aux_of(p, fused);
  return !p.adds() && out_of(p, fused).stride[1] == 1 && aux.stride[1] == 1 &&
         aux.stride[0] % 8 == 0 && alignment(aux.data, aux.stride[0], aux.dtype) >= 16;
}

std::optional<Call> on_scratch(const Call& p) {
  if (!p.adds()) return p;
  const auto bytes =
      static_cast<std::size_t>(p.c_MN.extent[0] * std::max(p.c_MN.stride[0], p.c_MN.extent[1])) *
      bytes_of(p.c_MN.dtype);
  if (bytes > trial_bytes) return {};
  auto trial = p;
  trial.c_MN.data = p.workspace.data + trial_at;
  if (trial.epilogue.row_sum_M) trial.epilogue.row_sum_M.data = p.workspace.data + trial_sums_at;
  return trial;
}

}  // namespace trireme::cuda
