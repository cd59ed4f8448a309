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
  r.products.run(r.stream, o, r.scratch);
}

}  // namespace trireme::cuda
