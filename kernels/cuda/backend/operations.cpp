#include "kernels/cuda/backend/operations.hpp"

namespace trireme::cuda {

void run(const kernel::AddFixed&, const Resources&) {
  fail("add_fixed: a GPU does not count quanta yet; run.exactness = \"invariant\" needs the host");
}

void run(const kernel::ReadFixed&, const Resources&) {
  fail("read_fixed: a GPU does not count quanta yet; run.exactness = \"invariant\" needs the host");
}

template <class O>
static void run_product(const O& o, const Resources& r) {
  require(o.order != SumOrder::by_shape,
          "{}: a GPU does not sum in an order that depends only on shapes. run.exactness = "
          "\"invariant\" needs the host",
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
          "grouped_matmul_grad: a GPU does not count quanta yet; run.exactness = \"invariant\" "
          "needs the host");
  r.products.run(r.stream, o, r.scratch);
}

}  // namespace trireme::cuda
