#include "lib/ops/attention_calls.hpp"

#include <algorithm>
#include <utility>

namespace trireme::ops {

OwnHeads::OwnHeads(const Run& run, const Heads& h, const Tensor& x_BTX)
    : share(head_share(h, head_ranks(run).rank, head_ranks(run).size)),
      dim(h.dim),
      batch(x_BTX.shape()[0]),
      tokens(x_BTX.shape()[1]),
      groups(head_groups(h, share)) {}

View OwnHeads::heads(const Tensor& o, const HeadGroup& g) const {
  return o.view()
      .reshaped({batch, tokens, share.query.count, dim})
      .slice(2, g.query.begin, g.query.count);
}

View OwnHeads::lse(const Tensor& lse, const HeadGroup& g) const {
  return lse.slice(batch * g.query.begin * tokens, {batch, g.query.count, tokens}).view();
}

AttentionCalls::AttentionCalls(const Run& run, const Heads& h, std::int64_t window,
                               const Scores& scores, const Tensor& qkv_BTX, Direction direction,
                               std::int64_t rows)
    : OwnHeads(run, h, qkv_BTX),
      layout(run.sequence ? *run.sequence : SequenceLayout(qkv_BTX.shape()[1])),
      backend_(run.backend),
      window_(window),
      type_(qkv_BTX.dtype()),
      direction_(direction),
      documents_(run.pass.start_BT),
      scores_(scores) {
  std::int64_t row = 0;
  for (int c = 0; c < layout.chunks(); ++c) {
    const auto all = layout.block(layout.group_of(run.seq.rank()), c);
    const auto step = rows > 0 ? rows : all.count();
    for (auto at = all.begin; at < all.end; at += step) {
      runs_.push_back({row, {at, at + step}, c});
      row += step;
    }
  }
  states_.resize(runs_.size() * groups.size());
}

std::vector<AttentionCall> AttentionCalls::with_keys_of(int c) const {
  std::vector<AttentionCall> calls;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const auto& own = runs_[i];
    const auto keys = layout.seen_by(own.positions, c, window_);
    if (keys.count() == 0) continue;
    const bool first = c == 0 || layout.seen_by(own.positions, c - 1, window_).count() == 0,
               last = c == own.chunk;
    const auto piece = first ? last ? Piece::all : Piece::first : last ? Piece::last : Piece::next;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      AttentionShape shape{batch,
                           own.positions.count(),
                           groups[g].query.count,
                           groups[g].kv.count,
                           dim,
                           scores_.scale_of(dim),
                           window_};
      shape.softcap = scores_.softcap;
      if (runs_.size() > 1 || layout.groups() > 1) {
        shape.key_count = keys.count();
        shape.query_at = own.positions.begin;
        shape.key_at = keys.begin;
      }
      shape.documents = documents_;
      calls.push_back({i, groups[g], g, keys, piece, shape});
    }
  }
  return calls;
}

Tensor AttentionCalls::workspace() const {
  std::size_t bytes = 0;
  for (int c = 0; c < layout.chunks(); ++c)
    for (const auto& call : with_keys_of(c)) bytes = std::max(bytes, needed(call).workspace);
  return lent(bytes);
}

Tensor AttentionCalls::state(const AttentionCall& c) {
  if (c.piece == Piece::all) return {};
  auto& kept = states_[c.run * groups.size() + c.group];
  if (c.piece == Piece::first) kept = lent(needed(c).state);
  return c.piece == Piece::last ? std::exchange(kept, {}) : kept;
}

View AttentionCalls::queries(const View& q_BTHD, const AttentionCall& c) const {
  return rows(q_BTHD.slice(2, c.heads.query.begin, c.heads.query.count), c);
}

View AttentionCalls::heads_of(const Tensor& o, const AttentionCall& c) const {
  return rows(heads(o, c.heads), c);
}

View AttentionCalls::lse_of(const Tensor& all, const AttentionCall& c) const {
  return lse(all, c.heads).slice(2, runs_[c.run].row, c.shape.tokens);
}

View AttentionCalls::keys(const View& chunk_BTGD, int chunk, const AttentionCall& c,
                          std::int64_t which) const {
  const auto& kv = c.heads.kv;
  return chunk_BTGD.slice(1, c.keys.begin - layout.chunk(chunk).begin, c.keys.count())
      .slice(2, which * share.kv.count + kv.begin, kv.count);
}

ConstView AttentionCalls::starts(const ConstView& start_BT, const AttentionCall& c) const {
  if (!start_BT) return {};
  return start_BT.slice(1, runs_[c.run].positions.begin, c.shape.tokens);
}

Packed AttentionCalls::packed(const Tensor& qkv) const {
  return unpack(qkv, {share.query.count, share.kv.count, dim});
}

View AttentionCalls::key_values(const Tensor& qkv) const {
  return qkv.view()
      .reshaped({batch, tokens, share.query.count + 2 * share.kv.count, dim})
      .slice(2, share.query.count, 2 * share.kv.count);
}

View AttentionCalls::rows(const View& v, const AttentionCall& c) const {
  return v.slice(1, runs_[c.run].row, c.shape.tokens);
}

AttentionBytes AttentionCalls::needed(const AttentionCall& c) const {
  return backend_.attention_bytes(c.shape, type_, direction_);
}

Tensor AttentionCalls::lent(std::size_t bytes) const {
  if (bytes == 0) return {};
  return Tensor::empty(backend_, {static_cast<std::int64_t>((bytes + 3) / 4)}, DType::f32,
                       MemoryKind::workspace);
}

}  // namespace trireme::ops
