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
  std::size_t group;
  Span keys;
  Piece piece;
  AttentionShape shape;
};

class Calls {
 public:
  // rows > 0: blocks of so many queries.
  Calls(const Run& run, const Heads& h, const Tensor& qkv_BTX, Direction direction,
        std::int64_t rows = 0)
      : layout(run.sequence ? *run.sequence : SequenceLayout(qkv_BTX.shape()[1])),
        share(head_share(h, head_ranks(run).rank, head_ranks(run).size)),
        dim(h.dim),
        batch(qkv_BTX.shape()[0]),
        tokens(qkv_BTX.shape()[1]),
        groups(head_groups(h, share)),
        backend_(run.backend),
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
    std::size_t bytes = 0;
    for (int c = 0; c < layout.chunks(); ++c)
      each(c, [&](const Call& call) { bytes = std::max(bytes, needed(call).workspace); });
    workspace = lent(bytes);
  }

  // f(call) for all calls with keys of chunk c.
  template <class F>
  void each(int c, const F& f) const {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto& block = blocks[i];
      const auto keys = layout.seen_by(block.positions, c, 0);
      if (keys.count() == 0) continue;
      const bool first = c == 0 || layout.seen_by(block.positions, c - 1, 0).count() == 0,
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
                             1 / std::sqrt(static_cast<double>(dim))};
        if (!(keys == block.positions && keys.begin == 0)) {
          shape.key_count = keys.count();
          shape.query_at = block.positions.begin;
          shape.key_at = keys.begin;
        }
        f(Call{i, g, keys, piece, shape});
      }
    }
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
    return rows(q_BTHD, c).slice(2, groups[c.group].query.begin, groups[c.group].query.count);
  }
  View heads(const Tensor& o, const Call& c) const {
    return queries(o.view().reshaped({batch, tokens, share.query.count, dim}), c);
  }
  // A group's numbers lie together: [B, h, T].
  View lse(const Tensor& lse, const Call& c) const {
    const auto& q = groups[c.group].query;
    return lse.slice(batch * q.begin * tokens, {batch, q.count, tokens})
        .view()
        .slice(2, blocks[c.block].row, c.shape.tokens);
  }
  // Keys (which = 0) or values of a call, of a chunk's: [B, T, 2 G, D].
  View keys(const View& chunk_BTGD, int chunk, const Call& c, std::int64_t which) const {
    const auto& kv = groups[c.group].kv;
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
  HeadShare share;
  std::int64_t dim, batch, tokens;
  std::vector<HeadGroup> groups;
  std::vector<QueryBlock> blocks;
  Tensor workspace;

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
  DType type_;
  Direction direction_;
  std::vector<Tensor> states_;  // by block and group
};

KeyRows key_rows(const Run& run, const Calls& calls) {
  return {run, calls.layout,         calls.batch, calls.share.kv.count, calls.dim,
          0,   run.cached != nullptr};
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
  if (extends(run)) return {extend(run, heads_, block_, qkv)};
  Calls calls(run, heads_, qkv, Direction::forward);
  const auto query = calls.share.query.count;
  const Tensor o =
      Tensor::empty(b, {calls.batch, calls.tokens, query * calls.dim}, qkv.dtype(), kind_of(saved));
  const Tensor lse =
      Tensor::empty(b, {calls.batch, query, calls.tokens}, wide(qkv.dtype()), kind_of(saved));
  const auto q_BTHD = calls.packed(qkv).q_BTHD;
  KeyStream stream(key_rows(run, calls), calls.key_values(qkv));
  for (int c = 0; c < calls.layout.chunks(); ++c) {
    const View chunk_BTGD = stream.chunk(c);
    calls.each(c, [&](const Call& call) {
      const Tensor state = calls.state(call);
      const bool last = ends_keys(call.piece);
      b.put(Queue::compute, kernel::Attention{.o_BTHD = last ? calls.heads(o, call) : View{},
                                              .lse_BHT = last ? calls.lse(lse, call) : View{},
                                              .q_BTHD = calls.queries(q_BTHD, call),
                                              .k_BTGD = calls.keys(chunk_BTGD, c, call, 0),
                                              .v_BTGD = calls.keys(chunk_BTGD, c, call, 1),
                                              .shape = call.shape,
                                              .workspace = calls.workspace.view(),
                                              .start_BT = calls.starts(run.place.start_BT, call),
                                              .piece = call.piece,
                                              .state = state.view()});
      run.seq.progress();
    });
    if (run.cached) fill(run, block_, chunk_BTGD, calls.layout.chunk(c).begin);
  }
  if (saved) *saved = {qkv, o, lse};
  return {o};
}

std::vector<Tensor> Attention::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                               Saved& saved, std::span<const std::uint8_t>) const {
  auto& b = run.backend;
  const Tensor &qkv = saved[0], &o = saved[1], &lse = saved[2];
  const auto leaf = run.place.exact_chunk;
  const bool counts = leaf > 0;
  Calls calls(run, heads_, qkv, Direction::backward, leaf);
  const Tensor dqkv = Tensor::empty(b, qkv.shape(), qkv.dtype(), Kind::transient);
  const auto q_BTHD = calls.packed(qkv).q_BTHD, dq_BTHD = calls.packed(dqkv).q_BTHD;
  const View dkv_BTGD = calls.key_values(dqkv);
  Tensor largest;
  if (counts) {
    largest = Tensor::empty(b, {1}, DType::f32, Kind::transient);
    b.put(Queue::compute, kernel::Fill{.dst = largest.view(), .value = 0});
  }
  const int shift = counts ? shift_of(run) : 0;
  const auto rows = key_rows(run, calls);
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
                .do_BTHD = calls.heads(grad_out[0], call),
                .o_BTHD = calls.heads(o, call),
                .lse_BHT = calls.lse(lse, call),
                .q_BTHD = calls.queries(q_BTHD, call),
                .k_BTGD = calls.keys(chunk_BTGD, c, call, 0),
                .v_BTGD = calls.keys(chunk_BTGD, c, call, 1),
                .shape = call.shape,
                .workspace = calls.workspace.view(),
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
  return {dqkv};
}

}  // namespace trireme::ops
