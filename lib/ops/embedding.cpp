#include "lib/ops/embedding.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

struct EmbeddingKept {
  Tensor ids{};
  Tensor t{};  // s b[ids], if there is an adapter
  Tensor a{};  // copy of a, so that the backward pass need not gather the unit again
};

// Returns a copy that the backward pass may read.
Tensor copy_of(const Run& run, const ConstView& x) {
  Tensor copy = Tensor::empty(run.backend, {x.extent[0], x.extent[1]}, x.dtype, MemoryKind::saved);
  run.backend.put(Queue::compute, kernel::Copy{.dst = copy.view(), .src = x});
  return copy;
}

}  // namespace

Embedding::Embedding(ParamId table, std::int64_t width, DType compute, std::optional<LowRank> low)
    : params_{table}, width_(width), compute_(compute), low_(std::move(low)) {
  if (low_) params_.insert(params_.end(), {low_->a, low_->b});
}

static void look_up(const Run& run, const View& y_TC, const Tensor& ids, const ConstView& table) {
  run.backend.put(
      Queue::compute,
      kernel::Embedding{
          .y_TC = y_TC, .ids_T = ids.view().reshaped({ids.shape().count()}), .table_VC = table});
}

std::vector<Tensor> Embedding::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor ids = std::move(in[0]);
  const auto batch = ids.shape()[0], tokens = ids.shape()[1];
  Tensor y = Tensor::empty(run.backend, {batch, tokens, width_}, compute_, kind_of(saved));
  look_up(run, as_rows(y), ids, run.weights[params_[0]]);
  expect(!low_ || run.pass.adapters || !saved, "a pass without adapters has no backward pass");
  EmbeddingKept all{.ids = ids};
  if (low_ && run.pass.adapters) {
    auto& t = all.t;
    t = Tensor::empty(run.backend, {batch * tokens, low_->rank}, compute_, kind_of(saved));
    look_up(run, t.view(), ids, run.weights[low_->b]);
    apply_scale(run, *low_, t.view());
    multiply_rows(run, {.c_MN = as_rows(y),
                        .a_MK = t.view(),
                        .b_KN = run.weights[low_->a],
                        .how = Accumulate::add});
    if (saved && run.trainable[low_->b.index()]) all.a = copy_of(run, run.weights[low_->a]);
  }
  if (saved) saved->keep(std::move(all));
  return {y};
}

std::vector<Tensor> Embedding::input_gradients(const Run&, std::vector<Tensor>&, Saved&,
                                               std::span<const std::uint8_t>) const {
  return {Tensor{}};
}

// Adds each row of dy to the table's gradient, at the row with the token's id.
static void add_rows_of(const Run& run, ParamId table, const ConstView& dy_TC,
                        const ConstView& ids_T, std::int64_t leaves) {
  run.gradients->add_whole(
      {&table, 1}, leaves,
      [&](std::span<const View> dtable_VC, std::span<const View> largest, Accumulate how) {
        run.backend.put(Queue::compute, kernel::EmbeddingGrad{.dtable_VC = dtable_VC[0],
                                                              .how = how,
                                                              .dy_TC = dy_TC,
                                                              .ids_T = ids_T,
                                                              .largest = largest[0]});
      });
}

void Embedding::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  const ConstView dy_TC = as_rows(grad_out[0]);
  const auto tokens = dy_TC.extent[0];
  const auto& [ids, t, a] = saved.as<EmbeddingKept>();
  const ConstView ids_T = ids.view().reshaped({tokens});
  if (run.wants(params_[0])) add_rows_of(run, params_[0], dy_TC, ids_T, tokens);
  if (!low_) return;
  if (run.wants(low_->b)) {
    const Tensor u =
        Tensor::empty(run.backend, {tokens, low_->rank}, compute_, MemoryKind::transient);
    multiply_rows(run, {.c_MN = u.view(), .a_MK = dy_TC, .b_KN = a.view().transposed()});
    apply_scale(run, *low_, u.view());
    add_rows_of(run, low_->b, u.view(), ids_T, tokens);
  }
  if (!run.wants(low_->a)) return;
  const ConstView t_TR = t.view();
  run.gradients->add(
      {&low_->a, 1}, tokens, [&](Rows r, std::span<const View> da_RC, Accumulate how) {
        run.backend.put(Queue::compute, kernel::Matmul{.c_MN = da_RC[0],
                                                       .a_MK = rows_of(t_TR, r).transposed(),
                                                       .b_KN = rows_of(dy_TC, r),
                                                       .how = how,
                                                       .order = sum_order(run)});
      });
}

// Returns the rows of the position table for this rank's tokens.
template <class Byte>
static BasicView<Byte> positions_of(const BasicView<Byte>& table, const Run& run,
                                    std::int64_t tokens) {
  return table.slice(0, run.pass.rows.t0, tokens);
}

std::vector<Tensor> AddPositions::forward(const Run& run, std::vector<Tensor> in,
                                          Saved* saved) const {
  const Tensor y = owned(run, std::move(in[0]), kind_of(saved));
  const auto batch = y.shape()[0], tokens = y.shape()[1], width = y.shape()[2];
  if (const auto& position_BT = run.pass.position_BT) {
    const Tensor rows =
        Tensor::empty(run.backend, {batch, tokens, width}, y.dtype(), MemoryKind::transient);
    run.backend.put(Queue::compute,
                    kernel::Embedding{.y_TC = as_rows(rows),
                                      .ids_T = position_BT.reshaped({batch * tokens}),
                                      .table_VC = run.weights[params_[0]]});
    run.backend.put(Queue::compute,
                    kernel::Copy{.dst = y.view(), .src = rows.view(), .how = Accumulate::add});
    return {y};
  }
  ConstView table = positions_of(run.weights[params_[0]], run, tokens);
  table.dims = 3;
  table.extent = {batch, tokens, width};
  table.stride = {0, width, 1};
  run.backend.put(Queue::compute,
                  kernel::Copy{.dst = y.view(), .src = table, .how = Accumulate::add});
  return {y};
}

std::vector<Tensor> AddPositions::input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                                  std::span<const std::uint8_t>) const {
  return {grad_out[0]};
}

void AddPositions::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved) const {
  const Tensor& dy = grad_out[0];
  const auto batch = dy.shape()[0], tokens = dy.shape()[1], width = dy.shape()[2];
  if (!wants_any(run, params_)) return;
  // Leaves limit the number of terms in one element's sum. Without documents, each position occurs
  // once per sample, on one sequence-parallel rank. With documents, all tokens may have the same
  // position.
  const auto leaves = run.pass.start_BT ? batch * tokens : run.seq.rank() == 0 ? batch : 0;
  if (const auto& position_BT = run.pass.position_BT) {
    add_rows_of(run, params_[0], as_rows(dy), position_BT.reshaped({batch * tokens}), leaves);
    return;
  }
  const auto add = [&](std::span<const View> dst, std::span<const View> largest, Accumulate how) {
    const View dtable = dst[0];
    if (tokens < dtable.extent[0] && how == Accumulate::overwrite) {
      run.backend.put(Queue::compute, kernel::Fill{.dst = dtable, .value = 0});
      how = Accumulate::add;
    }
    run.backend.put(
        Queue::compute,
        kernel::ColumnSum{.out_C = positions_of(dtable, run, tokens).reshaped({tokens * width}),
                          .how = how,
                          .x_TC = dy.view().reshaped({batch, tokens * width}),
                          .largest = largest[0]});
  };
  run.gradients->add_whole(params_, leaves, add);
}

}  // namespace trireme::ops
