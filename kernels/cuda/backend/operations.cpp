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

// Trainer refuses it before: BackendProperties::documents.
static void refuse_documents(const ConstView& start_BT) {
  require(!start_BT, "a GPU computes no attention within documents: give run.backend = \"host\"");
}

// Trainer refuses them before: BackendProperties::key_tile.
template <class O>
static void refuse_pieces(const O& o) {
  const auto& s = o.shape;
  require(o.piece == Piece::all && s.keys() == s.tokens && s.query_at == 0 && s.key_at == 0,
          "{}: a GPU takes all keys of a context at once: give run.backend = \"host\"", O::name);
}

void run(const kernel::Attention& o, const Resources& r) {
  refuse_documents(o.start_BT);
  refuse_pieces(o);
  const bool fused = r.sdpa.supports(o.shape, o.o_BTHD.dtype, Direction::forward);
  if (!fused || !r.sdpa.run(r.stream, o)) attend(o, r.stream);
  if (o.sink_H) join_sinks(o, r.stream);
}

void run(const kernel::AttentionGrad& o, const Resources& r) {
  refuse_documents(o.start_BT);
  refuse_pieces(o);
  const auto type = o.o_BTHD.dtype;
  if (r.sdpa.supports(o.shape, type, Direction::backward) && r.sdpa.run(r.stream, o)) return;
  attend(o, r.stream);
}

void run(const kernel::CachedAttention&, const Resources&) {
  fail("cached_attention: a GPU keeps no keys and values yet: BackendProperties::caches says so");
}

}  // namespace trireme::cuda
