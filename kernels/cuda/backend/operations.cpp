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
<<<<<<< HEAD
static void require_any_order(const O& o) {
  require(o.order == SumOrder::any,
          "{}: GPUs do not support run.exactness = \"invariant\", because the order of their sums "
          "does not depend on shape or row alone; set run.backend = \"host\"",
=======
static void run_product(const O& o, const Resources& r) {
  require(o.order != SumOrder::by_shape,
          "{}: a GPU does not sum in an order that depends only on shapes. run.exactness = "
          "\"invariant\" needs the host",
>>>>>>> w-kv
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

<<<<<<< HEAD
void run(const kernel::CachedAttention&, const Resources&) {
  fail("cached_attention: GPUs have no key-value cache yet (BackendProperties::caches is false)");
}

=======
>>>>>>> w-kv
}  // namespace trireme::cuda
