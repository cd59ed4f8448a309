#include "kernels/cuda/products/fp8.hpp"

#include "lib/base/error.hpp"

namespace trireme::cuda {
namespace {

// Returns the codes of a matrix as a matrix by columns: one column for each row of codes.
Stored by_columns(const fp8::Matrix<ConstView>& m, bool transposed) {
  return {m.columns(), m.rows(), m.columns(), transposed};
}

std::uint32_t alignment_of(const ConstView& v) {
  return alignment(v.data, v.stride[0], v.dtype);
}

// In column-major form, the product is c' = b a', and both operands are stored with K first.
Key key_of(const kernel::Fp8Matmul& o) {
  const auto out = transpose_of(o.c_MN);
  return {.left = by_columns(o.b_NK, true),
          .right = by_columns(o.a_MK, false),
          .out = out,
          .in = {},
          .result = o.c_MN.dtype,
          .add = o.how == Accumulate::add,
          .bias = static_cast<bool>(o.bias_N),
          .fused = Fused::nothing,
          .aux_ld = 0,
          .left_alignment = alignment_of(o.b_NK.code_RW),
          .right_alignment = alignment_of(o.a_MK.code_RW),
          .out_alignment = alignment(o.c_MN.data, out.ld, o.c_MN.dtype),
          .aux_alignment = 0,
          .vector_alignment = 0,
          .left_scales = o.b_NK.scales,
          .right_scales = o.a_MK.scales};
}

Pointers pointers_of(const kernel::Fp8Matmul& o) {
  return {.left = o.b_NK.code_RW.data,
          .right = o.a_MK.code_RW.data,
          .out = o.c_MN.data,
          .aux = nullptr,
          .vector = const_cast<std::byte*>(o.bias_N.data),
          .left_scale = o.b_NK.scale.data,
          .right_scale = o.a_MK.scale.data};
}

}  // namespace

void Fp8Products::run(void* stream, const kernel::Fp8Matmul& o, View workspace) {
  if (o.c_MN.count() == 0) return;
  expect(workspace && workspace.span_bytes() >= cuda_workspace_bytes,
         "products have their workspace");
  for (const auto* m : {&o.a_MK, &o.b_NK})
    expect(m->code_RW.dense() && m->scale.dense(), "fp8_matmul: dense operands");
  expect(o.c_MN.stride[1] == 1 || o.c_MN.extent[1] == 1, "fp8_matmul: c has dense rows");
  const auto key = key_of(o);
  const auto pointers = pointers_of(o);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    Plan plan = planner_.describe(key, pointers);
    plan.algorithm = planner_.algorithms(key, plan).front();
    found = plans_.emplace(key, std::move(plan)).first;
  }
  const auto& plan = found->second;
  point(key, plan, pointers);
  planner_.run(plan, plan.algorithm, pointers, o.how, workspace, static_cast<cudaStream_t>(stream));
}

}  // namespace trireme::cuda
