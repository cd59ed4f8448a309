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
static void require_any_order(const O& o) {
  require(o.order == SumOrder::any,
          "{}: GPUs do not support run.exactness = \"invariant\", because the order of their sums "
          "does not depend on shape or row alone; set run.backend = \"host\"",
          O::name);
}

void run(const kernel::Matmul& o, const Resources& r) {
  require_any_order(o);
  r.products.run(r.stream, o, r.scratch);
}

void run(const kernel::GroupedMatmul& o, const Resources& r) {
  require_any_order(o);
  r.products.run(r.stream, o, r.scratch);
}

void run(const kernel::GroupedMatmulGrad& o, const Resources& r) {
  require(o.leaf == 0,
          "grouped_matmul_grad: GPUs do not support run.exactness = \"invariant\" yet; set "
          "run.backend = \"host\"");
  r.products.run(r.stream, o, r.scratch);
}

void run(const kernel::CachedAttention&, const Resources&) {
  fail("cached_attention: GPUs have no key-value cache yet (BackendProperties::caches is false)");
}

}  // namespace trireme::cuda
