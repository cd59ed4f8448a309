#include "lib/ops/attention.hpp"

#include <algorithm>
#include <cmath>

#include "lib/ops/cached_attention.hpp"
#include "lib/ops/key_stream.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// Queries of a call: rows of this rank's that are positions which follow each other.
struct QueryBlock {
  std::int64_t row;
  Span positions;
  int chunk;  // that they are in
};

// A block's queries, a piece of their keys, a group of heads.
struct Call {
  std::size_t block;
  HeadGroup heads;
  std::size_t group;  // which one they are
  Span keys;
  Piece piece;
  AttentionShape shape;
};

// This rank's heads, of x_BTX's samples and positions.
struct OwnHeads {
  OwnHeads(const Run& run, const Heads& h, const Tensor& x_BTX)
      : share(head_share(h, head_ranks(run).rank, head_ranks(run).size)),
        dim(h.dim),
        batch(x_BTX.shape()[0]),
        tokens(x_BTX.shape()[1]),
        groups(head_groups(h, share)) {}
  // Those of a group.
  View heads(const Tensor& o, const HeadGroup& g) const {
    return o.view()
        .reshaped({batch, tokens, share.query.count, dim})
        .slice(2, g.query.begin, g.query.count);
  }
  // A group's numbers lie together: [B, h, T].
  View lse(const Tensor& lse, const HeadGroup& g) const {
    return lse.slice(batch * g.query.begin * tokens, {batch, g.query.count, tokens}).view();
  }

  HeadShare share;
  std::int64_t dim, batch, tokens;
  std::vector<HeadGroup> groups;
};

class Calls : public OwnHeads {
 public:
  // rows > 0: blocks of so many queries.
  Calls(const Run& run, const Heads& h, std::int64_t window, const Tensor& qkv_BTX,
        Direction direction, std::int64_t rows = 0)
      : OwnHeads(run, h, qkv_BTX),
        layout(run.sequence ? *run.sequence : SequenceLayout(qkv_BTX.shape()[1])),
        backend_(run.backend),
        window_(window),
        type_(qkv_BTX.dtype()),
        direction_(direction) {
    std::int64_t row = 0;
    for (int c = 0; c < layout.chunks(); ++c) {
      const auto all = layout.block(layout.group_of(run.seq.rank()), c);
      const auto step = rows > 0 ? rows : all.count();
      for (auto at = all.begin; at < all.end; at += step) {
        blocks.push_back({row, {at, at + step}, c});
        row += step;
      }
    }
    states_.resize(blocks.size() * groups.size());
  }

  // f(call) for all calls with keys of chunk c.
  template <class F>
  void each(int c, const F& f) const {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto& block = blocks[i];
      const auto keys = layout.seen_by(block.positions, c, window_);
      if (keys.count() == 0) continue;
      const bool first = c == 0 || layout.seen_by(block.positions, c - 1, window_).count() == 0,
                 last = c == block.chunk;
      const auto piece = first  ? last ? Piece::all : Piece::first
                         : last ? Piece::last
                                : Piece::next;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        AttentionShape shape{batch,
                             block.positions.count(),
                             groups[g].query.count,
                             groups[g].kv.count,
                             dim,
                             1 / std::sqrt(static_cast<double>(dim)),
                             window_};
        if (!(keys == block.positions && keys.begin == 0)) {
          shape.key_count = keys.count();
          shape.query_at = block.positions.begin;
          shape.key_at = keys.begin;
        }
        f(Call{i, groups[g], g, keys, piece, shape});
      }
    }
  }

  // For any of the calls; taken last, as it is given back first.
  Tensor workspace() const {
    std::size_t bytes = 0;
    for (int c = 0; c < layout.chunks(); ++c)
      each(c, [&](const Call& call) { bytes = std::max(bytes, needed(call).workspace); });
    return lent(bytes);
  }

  // What a call finds of the pieces before it, and leaves for those behind.
  Tensor state(const Call& c) {
    if (c.piece == Piece::all) return {};
    auto& kept = states_[c.block * groups.size() + c.group];
    if (c.piece == Piece::first) kept = lent(needed(c).state);
    return c.piece == Piece::last ? std::exchange(kept, {}) : kept;
  }

  // Of this rank's rows, those of a call.
  View queries(const View& q_BTHD, const Call& c) const {
    return rows(q_BTHD.slice(2, c.heads.query.begin, c.heads.query.count), c);
  }
  View heads_of(const Tensor& o, const Call& c) const { return rows(heads(o, c.heads), c); }
  View lse_of(const Tensor& all, const Call& c) const {
    return lse(all, c.heads).slice(2, blocks[c.block].row, c.shape.tokens);
  }
  // Keys (which = 0) or values of a call, of a chunk's: [B, T, 2 G, D].
  View keys(const View& chunk_BTGD, int chunk, const Call& c, std::int64_t which) const {
    const auto& kv = c.heads.kv;
    return chunk_BTGD.slice(1, c.keys.begin - layout.chunk(chunk).begin, c.keys.count())
        .slice(2, which * share.kv.count + kv.begin, kv.count);
  }
  ConstView starts(const ConstView& start_BT, const Call& c) const {
    if (!start_BT) return {};
    return start_BT.slice(1, blocks[c.block].positions.begin, c.shape.tokens);
  }
  Packed packed(const Tensor& qkv) const {
    return unpack(qkv, {share.query.count, share.kv.count, dim});
  }
  // Keys and values side by side.
  View key_values(const Tensor& qkv) const {
    return qkv.view()
        .reshaped({batch, tokens, share.query.count + 2 * share.kv.count, dim})
        .slice(2, share.query.count, 2 * share.kv.count);
  }

  SequenceLayout layout;
  std::vector<QueryBlock> blocks;

 private:
  View rows(const View& v, const Call& c) const {
    return v.slice(1, blocks[c.block].row, c.shape.tokens);
  }
  AttentionBytes needed(const Call& c) const {
    return backend_.attention_bytes(c.shape, type_, direction_);
  }
  Tensor lent(std::size_t bytes) const {
    if (bytes == 0) return {};
    return Tensor::empty(backend_, {static_cast<std::int64_t>((bytes + 3) / 4)}, DType::f32,
                         Kind::workspace);
  }

  Backend& backend_;
  std::int64_t window_;
  DType type_;
  Direction direction_;
  std::vector<Tensor> states_;  // by block and group
};

KeyRows key_rows(const Run& run, const Calls& calls, std::int64_t window) {
  return {run,       calls.layout, calls.batch,          calls.share.kv.count,
          calls.dim, window,       run.cached != nullptr};
}

// Of quanta of keys' gradients: such that one of the mean over the step's tokens is 2^-44 of its
// size in their sum, and 2^19 of these fit.
int shift_of(const Run& run) {
  return -std::ilogb(run.place.scale) - 6;
}

}  // namespace

std::vector<Tensor> Attention::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor qkv = std::move(in[0]);
  const ConstView sink_H = sinks_.empty() ? ConstView{} : run.weights[sinks_[0]];
  const CachedBlock cached{block_, window_, sink_H};
  if (extends(run)) return {extend(run, heads_, cached, qkv)};
  Calls calls(run, heads_, window_, qkv, Direction::forward);
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
    calls.each(c, [&](const Call& call) {
      const Tensor state = calls.state(call);
      const bool last = ends_keys(call.piece);
      b.put(Queue::compute, kernel::Attention{.o_BTHD = last ? calls.heads_of(o, call) : View{},
                                              .lse_BHT = last ? calls.lse_of(lse, call) : View{},
                                              .q_BTHD = calls.queries(q_BTHD, call),
                                              .k_BTGD = calls.keys(chunk_BTGD, c, call, 0),
                                              .v_BTGD = calls.keys(chunk_BTGD, c, call, 1),
                                              .shape = call.shape,
                                              .workspace = scratch.view(),
                                              .start_BT = calls.starts(run.place.start_BT, call),
                                              .piece = call.piece,
                                              .state = state.view(),
                                              .sink_H = sinks_of(own_H, call.heads.query)});
      run.seq.progress();
    });
    if (run.cached) fill(run, cached, chunk_BTGD, calls.layout.chunk(c).begin);
  }
  if (!saved) return {o};
  *saved = {qkv, o, lse};
  if (own_H) {
    saved->push_back(Tensor::empty(b, {query}, own_H.dtype, Kind::saved));
    b.put(Queue::compute, kernel::Copy{.dst = saved->back().view(), .src = own_H});
  }
  return {o};
}

std::vector<Tensor> Attention::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                               Saved& saved,
                                               std::span<const std::uint8_t> wanted) const {
  if (!wanted[0]) return {Tensor{}};
  auto& b = run.backend;
  const Tensor &qkv = saved[0], &o = saved[1], &lse = saved[2];
  const auto leaf = run.place.exact_chunk;
  const bool counts = leaf > 0;
  Calls calls(run, heads_, window_, qkv, Direction::backward, leaf);
  const Tensor dqkv = Tensor::empty(b, qkv.shape(), qkv.dtype(), Kind::transient);
  const Tensor scratch = calls.workspace();
  const auto q_BTHD = calls.packed(qkv).q_BTHD, dq_BTHD = calls.packed(dqkv).q_BTHD;
  const View dkv_BTGD = calls.key_values(dqkv);
  Tensor largest;
  if (counts) {
    largest = Tensor::empty(b, {1}, DType::f32, Kind::transient);
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
  // One rank's one call writes them where they belong.
  const bool direct = !counts && calls.layout.groups() == 1;
  KeyGradients sums(rows, counts ? DType::i64 : wide(qkv.dtype()), put);
  KeyStream stream(rows, calls.key_values(qkv));
  for (int c = 0; c < calls.layout.chunks(); ++c) {
    const View chunk_BTGD = stream.chunk(c);
    const Tensor sum = direct ? Tensor{} : sums.start(c);
    const View to_BTGD = direct ? dkv_BTGD : by_sample(sum.view());
    calls.each(c, [&](const Call& call) {
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
                .start_BT = calls.starts(run.place.start_BT, call),
                .piece = call.piece,
                .state = state.view(),
                .keys = direct ? Accumulate::overwrite : Accumulate::add,
                .shift = shift,
                .largest = largest.view()});
      run.seq.progress();
    });
    if (!direct) sums.send(c, sum);
  }
  sums.finish();
  if (!sinks_.empty()) saved[0] = {};
  return {dqkv};
}

// Leaves are tokens of one sample; other heads are other ranks'.
void Attention::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  if (!wants_any(run, sinks_)) return;
  auto& b = run.backend;
  const Tensor &o = saved[1], &lse = saved[2], &sink = saved[3];
  const OwnHeads own(run, heads_, o);
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
                .o_BTHD = rows(own.heads(o, g), 1),
                .lse_BHT = rows(own.lse(lse, g), 2),
                .sink_H = sinks_of(sink.view(), g.query)});
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
