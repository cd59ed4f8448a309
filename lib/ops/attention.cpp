#include "lib/ops/attention.hpp"

#include <algorithm>
#include <cmath>

#include "lib/ops/attention_calls.hpp"
#include "lib/ops/cached_attention.hpp"
#include "lib/ops/key_stream.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

KeyRows key_rows(const Run& run, const AttentionCalls& calls, std::int64_t window) {
  return {run,       calls.layout, calls.batch,          calls.share.kv.count,
          calls.dim, window,       run.cached != nullptr};
}

// Returns the shift of fixed-point key gradients (AttentionGrad::shift). Gradients contain the
// factor `scale`, which is 1 / valid targets of the step. One count is about 2^-44 times this
// factor, and sums of up to 2^19 times this factor fit.
int shift_of(const Run& run) {
  return -std::ilogb(run.pass.scale) - 6;
}

struct AttentionKept {
  Tensor qkv{}, o{}, lse{};
  Tensor sink_H{};  // of this rank's heads; absent without sinks
};

}  // namespace

std::vector<Tensor> Attention::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor qkv = std::move(in[0]);
  const ConstView sink_H = sinks_.empty() ? ConstView{} : run.weights[sinks_[0]];
  const CachedBlock cached{block_, window_, sink_H, scores_};
  if (extends(run)) return {extend(run, heads_, cached, qkv)};
  AttentionCalls calls(run, heads_, window_, scores_, qkv, Direction::forward);
  const ConstView own_H = sinks_of(sink_H, calls.share.query);
  const auto query = calls.share.query.count;
  const Tensor o =
      Tensor::empty(b, {calls.batch, calls.tokens, query * calls.dim}, qkv.dtype(), kind_of(saved));
  const Tensor lse =
      Tensor::empty(b, {calls.batch, query, calls.tokens}, wide(qkv.dtype()), kind_of(saved));
  const Tensor scratch = calls.workspace();
  const auto q_BTHD = calls.packed(qkv).q_BTHD;
  KeyStream stream(key_rows(run, calls, window_), calls.key_values(qkv));
  for (int c = 0; c < calls.layout.chunks(); ++c) {
    const View chunk_BTGD = stream.chunk(c);
    for (const auto& call : calls.with_keys_of(c)) {
      const Tensor state = calls.state(call);
      const bool last = ends_keys(call.piece);
      b.put(Queue::compute, kernel::Attention{.o_BTHD = last ? calls.heads_of(o, call) : View{},
                                              .lse_BHT = last ? calls.lse_of(lse, call) : View{},
                                              .q_BTHD = calls.queries(q_BTHD, call),
                                              .k_BTGD = calls.keys(chunk_BTGD, c, call, 0),
                                              .v_BTGD = calls.keys(chunk_BTGD, c, call, 1),
                                              .shape = call.shape,
                                              .workspace = scratch.view(),
                                              .start_BT = calls.starts(run.pass.start_BT, call),
                                              .piece = call.piece,
                                              .state = state.view(),
                                              .sink_H = sinks_of(own_H, call.heads.query)});
      run.seq.progress();
    }
    if (run.cached) fill(run, cached, chunk_BTGD, calls.layout.chunk(c).begin);
  }
  if (!saved) return {o};
  AttentionKept kept{.qkv = qkv, .o = o, .lse = lse};
  if (own_H) {
    kept.sink_H = Tensor::empty(b, {query}, own_H.dtype, MemoryKind::saved);
    b.put(Queue::compute, kernel::Copy{.dst = kept.sink_H.view(), .src = own_H});
  }
  saved->keep(std::move(kept));
  return {o};
}

std::vector<Tensor> Attention::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                               Saved& saved,
                                               std::span<const std::uint8_t> wanted) const {
  if (!wanted[0]) return {Tensor{}};
  auto& b = run.backend;
  auto& [qkv, o, lse, sink_H] = saved.as<AttentionKept>();
  const auto leaf = run.pass.exact_chunk;
  const bool counts = leaf > 0;
  AttentionCalls calls(run, heads_, window_, scores_, qkv, Direction::backward, leaf);
  const Tensor dqkv = Tensor::empty(b, qkv.shape(), qkv.dtype(), MemoryKind::transient);
  const Tensor scratch = calls.workspace();
  const auto q_BTHD = calls.packed(qkv).q_BTHD, dq_BTHD = calls.packed(dqkv).q_BTHD;
  const View dkv_BTGD = calls.key_values(dqkv);
  Tensor largest;
  if (counts) {
    largest = Tensor::empty(b, {1}, DType::f32, MemoryKind::transient);
    b.put(Queue::compute, kernel::Fill{.dst = largest.view(), .value = 0});
  }
  const int shift = counts ? shift_of(run) : 0;
  const auto rows = key_rows(run, calls, window_);
  std::int64_t row = 0;
  const auto put = [&](int c, const Tensor& sum_TBGD) {
    const auto n = calls.layout.block(rows.group(), c).count();
    const View dst = dkv_BTGD.slice(1, row, n);
    row += n;
    if (counts)
      b.put(Queue::compute,
            kernel::ReadFixed{.y_BTHD = dst,
                              .sum_BTHD = by_sample(sum_TBGD.view()),
                              .largest = largest.view(),
                              .terms = static_cast<double>(calls.layout.tokens() / leaf),
                              .shift = shift});
    else
      b.put(Queue::compute, kernel::Copy{.dst = dst, .src = by_sample(sum_TBGD.view())});
  };
  // If each key-value head has one call and no other rank adds terms, the kernel writes into dqkv.
  const bool direct = !counts && calls.layout.groups() == 1;
  KeyGradients sums(rows, counts ? DType::i64 : wide(qkv.dtype()), put);
  KeyStream stream(rows, calls.key_values(qkv));
  for (int c = 0; c < calls.layout.chunks(); ++c) {
    const View chunk_BTGD = stream.chunk(c);
    const Tensor sum = direct ? Tensor{} : sums.start(c);
    const View to_BTGD = direct ? dkv_BTGD : by_sample(sum.view());
    for (const auto& call : calls.with_keys_of(c)) {
      const Tensor state = calls.state(call);
      b.put(Queue::compute,
            kernel::AttentionGrad{
                .dq_BTHD = ends_keys(call.piece) ? calls.queries(dq_BTHD, call) : View{},
                .dk_BTGD = calls.keys(to_BTGD, c, call, 0),
                .dv_BTGD = calls.keys(to_BTGD, c, call, 1),
                .do_BTHD = calls.heads_of(grad_out[0], call),
                .o_BTHD = calls.heads_of(o, call),
                .lse_BHT = calls.lse_of(lse, call),
                .q_BTHD = calls.queries(q_BTHD, call),
                .k_BTGD = calls.keys(chunk_BTGD, c, call, 0),
                .v_BTGD = calls.keys(chunk_BTGD, c, call, 1),
                .shape = call.shape,
                .workspace = scratch.view(),
                .start_BT = calls.starts(run.pass.start_BT, call),
                .piece = call.piece,
                .state = state.view(),
                .keys = direct ? Accumulate::overwrite : Accumulate::add,
                .shift = shift,
                .largest = largest.view()});
      run.seq.progress();
    }
    if (!direct) sums.exchange(c, sum);
  }
  sums.finish();
  if (!sinks_.empty()) qkv = {};
  return {dqkv};
}

// Adds the gradients of the sinks. A range of rows is a leaf, which lies within one sample, or all
// rows. Sinks of heads that belong to other ranks get zero.
void Attention::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  if (!wants_any(run, sinks_)) return;
  auto& b = run.backend;
  const auto& kept = saved.as<AttentionKept>();
  const OwnHeads own(run, heads_, kept.o);
  const auto add = [&](std::int64_t sample, std::int64_t samples, Rows t, const View& dsink_H,
                       Accumulate how) {
    const auto rows = [&](const View& v, int of_tokens) {
      return v.slice(0, sample, samples).slice(of_tokens, t.begin, t.end - t.begin);
    };
    for (const auto& g : own.groups)
      b.put(Queue::compute,
            kernel::SinkGrad{
                .dsink_H = dsink_H.slice(0, own.share.query.begin + g.query.begin, g.query.count),
                .how = how,
                .do_BTHD = rows(own.heads(grad_out[0], g), 1),
                .o_BTHD = rows(own.heads(kept.o, g), 1),
                .lse_BHT = rows(own.lse(kept.lse, g), 2),
                .sink_H = sinks_of(kept.sink_H.view(), g.query)});
  };
  run.gradients->add(sinks_, own.batch * own.tokens,
                     [&](Rows r, std::span<const View> dst, Accumulate how) {
                       if (how == Accumulate::overwrite && own.share.query.count < heads_.query) {
                         b.put(Queue::compute, kernel::Fill{.dst = dst[0], .value = 0});
                         how = Accumulate::add;
                       }
                       if (r.end - r.begin == own.batch * own.tokens)
                         return add(0, own.batch, {0, own.tokens}, dst[0], how);
                       while (r.begin < r.end) {
                         const auto at = r.begin % own.tokens, sample = r.begin / own.tokens;
                         const auto end = std::min(own.tokens, at + r.end - r.begin);
                         add(sample, 1, {at, end}, dst[0], how);
                         how = Accumulate::add;
                         r.begin += end - at;
                       }
                     });
}

}  // namespace trireme::ops
