#include "kernels/cuda/backend/operations.hpp"

namespace trireme::cuda {

void run(const kernel::AddFixed&, const Resources&) {
  fail("add_fixed: a GPU does not count quanta yet; run.exactness = \"invariant\" needs the host");
}

void run(const kernel::ReadFixed&, const Resources&) {
  fail("read_fixed: a GPU does not count quanta yet; run.exactness = \"invariant\" needs the host");
}

template <class O>
static void require_any_order(const O& o) {
  require(o.order == SumOrder::any,
          "{}: a GPU's products do not sum in an order by shape or row alone; run.exactness = "
          "\"invariant\" needs the host",
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
          "grouped_matmul_grad: a GPU does not count quanta yet; run.exactness = \"invariant\" "
          "needs the host");
  r.products.run(r.stream, o, r.scratch);
}

void run(const kernel::CachedAttention&, const Resources&) {
  fail("cached_attention: a GPU keeps no keys and values yet: BackendProperties::caches says so");
}

}  // namespace trireme::cuda
