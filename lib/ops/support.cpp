#include "lib/ops/support.hpp"

#include <algorithm>

#include "lib/ops/key_values.hpp"

namespace trireme::ops {

View as_rows(const Tensor& x) {
  const auto& s = x.shape();
  const auto width = s[s.dims() - 1];
  return x.view().reshaped({s.count() / width, width});
}

Tensor owned(const Run& run, Tensor x, MemoryKind kind) {
  if (x.unique()) return x;
  Tensor fresh = Tensor::empty(run.backend, x.shape(), x.dtype(), kind);
  run.backend.put(Queue::compute, kernel::Copy{.dst = fresh.view(), .src = x.view()});
  return fresh;
}

Packed unpack(const Tensor& qkv, const Heads& h) {
  const auto all = qkv.view().reshaped({qkv.shape()[0], qkv.shape()[1], h.query + 2 * h.kv, h.dim});
  return {all.slice(2, 0, h.query), all.slice(2, h.query, h.kv),
          all.slice(2, h.query + h.kv, h.kv)};
}

SumOrder sum_order(const Run& run) {
  return run.pass.exact_chunk > 0 ? SumOrder::by_shape : SumOrder::any;
}

SumOrder sum_order_of_rows(const Run& run) {
  return run.pass.exact_chunk > 0 || extends(run) ? SumOrder::by_row : SumOrder::any;
}

void multiply_rows(const Run& run, const kernel::Matmul& all) {
  const auto rows = all.c_MN.extent[0], chunk = run.pass.exact_chunk;
  if (extends(run)) {
    auto by_row = all;
    by_row.order = SumOrder::by_row;
    return run.backend.put(Queue::compute, by_row);
  }
  if (chunk == 0) return run.backend.put(Queue::compute, all);
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const Rows r{begin, std::min(rows, begin + chunk)};
    const auto part = [&](const auto& v) { return v ? rows_of(v, r) : v; };
    auto one = all;
    one.order = sum_order(run);
    one.c_MN = part(all.c_MN);
    one.a_MK = part(all.a_MK);
    one.epilogue.activated_MN = part(all.epilogue.activated_MN);
    one.epilogue.activated_at_MN = part(all.epilogue.activated_at_MN);
    run.backend.put(Queue::compute, one);
  }
}

bool wants_any(const Run& run, std::span<const ParamId> params) {
  return std::ranges::any_of(params, [&](ParamId p) { return run.wants(p); });
}

Tensor room_for_rows(const Run& run, const ConstView& x_TC, std::int64_t rows, MemoryKind kind) {
  return Tensor::empty(run.backend, {rows, x_TC.extent[1]}, x_TC.dtype, kind);
}

Tensor take_rows(const Run& run, const ConstView& x_TC, const ConstView& ids_R, MemoryKind kind) {
  const auto rows = ids_R.count();
  Tensor y = room_for_rows(run, x_TC, rows, kind);
  run.backend.put(
      Queue::compute,
      kernel::Embedding{.y_TC = y.view(), .ids_T = ids_R.reshaped({rows}), .table_VC = x_TC});
  return y;
}

ConstView sinks_of(const ConstView& sink_H, HeadRange heads) {
  return sink_H ? sink_H.slice(0, heads.begin, heads.count) : sink_H;
}

}  // namespace trireme::ops
