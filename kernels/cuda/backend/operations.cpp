#include "kernels/cuda/backend/operations.hpp"

namespace trireme::cuda {

void run(const kernel::AddFixed&, const Resources&) {
  fail(
      "add_fixed: GPUs do not support run.exactness = \"invariant\" yet; set run.backend = "
      "\"host\"");
}

void run(const kernel::ReadFixed&, const Resources&) {
  fail(
      "read_fixed: GPUs do not support run.exactness = \"invariant\" yet; set run.backend = "
      "\"host\"");
}

template <class O>
static void run_product(const O& o, const Resources& r) {
  require(o.order != SumOrder::by_shape,
          "{}: GPUs do not support run.exactness = \"invariant\", because the order of their sums "
          "does not depend on shapes alone; set run.backend = \"host\"",
          O::name);
  if (o.order == SumOrder::by_row)
    multiply_by_row(o, r.stream);
  else
    r.products.run(r.stream, o, r.scratch);
}

void run(const kernel::Matmul& o, const Resources& r) {
  run_product(o, r);
}

void run(const kernel::GroupedMatmul& o, const Resources& r) {
  run_product(o, r);
}

void run(const kernel::GroupedMatmulGrad& o, const Resources& r) {
  require(o.leaf == 0,
          "grouped_matmul_grad: GPUs do not support run.exactness = \"invariant\" yet; set "
          "run.backend = \"host\"");
  r.products.run(r.stream, o, r.scratch);
}

void run(const kernel::Fp8Matmul& o, const Resources& r) {
  expect(o.order == SumOrder::any, "a product in fp8 on a GPU may add in any order");
  if (!o.bias_N || o.c_MN.dtype == DType::bf16) return r.products.run(r.stream, o, r.scratch);
  // In fp8, cuBLASLt adds no bias in f32.
  auto rows_MN = o.bias_N.reshaped({1, o.bias_N.count()});
  rows_MN.extent[0] = o.c_MN.extent[0];
  rows_MN.stride[0] = 0;
  run(kernel::Copy{.dst = o.c_MN, .src = rows_MN, .how = o.how}, r);
  auto product = o;
  product.bias_N = {};
  product.how = Accumulate::add;
  r.products.run(r.stream, product, r.scratch);
}

}  // namespace trireme::cuda
