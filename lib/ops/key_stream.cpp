#include "lib/ops/key_stream.hpp"

#include <algorithm>
#include <utility>

namespace trireme::ops {

Span KeyRows::needed(int group, int c) const {
  return every_key ? layout.chunk(c) : layout.seen(group, c, window);
}

Span KeyRows::needed_of(int group, int c, int owner) const {
  const auto all = needed(group, c), own = layout.block(owner, c);
  const Span both{std::max(all.begin, own.begin), std::min(all.end, own.end)};
  return both.count() > 0 ? both : Span{own.begin, own.begin};
}

View by_sample(View v) {
  std::swap(v.extent[0], v.extent[1]);
  std::swap(v.stride[0], v.stride[1]);
  return v;
}

// Returns the rows of the positions `s` in a chunk that begins at position `first`.
static View rows_of(const Tensor& chunk_TBGD, std::int64_t first, const Span& s) {
  return s.count() > 0 ? chunk_TBGD.view().slice(0, s.begin - first, s.count()) : View{};
}

KeyStream::KeyStream(const KeyRows& rows, const View& kv_BTGD) : rows_(rows), own_(kv_BTGD) {}

KeyStream::Arriving KeyStream::exchange(int c) {
  const auto& [run, layout, batch, heads, dim, window, every] = rows_;
  auto& b = run.backend;
  const auto whole = layout.chunk(c);
  const int me = rows_.group();
  const auto mine = layout.block(me, c);
  // First row of the block among the rows of this rank's group.
  std::int64_t row = 0;
  for (int before = 0; before < c; ++before) row += layout.block(me, before).count();
  const Tensor chunk =
      Tensor::empty(b, rows_.shape(whole.count()), own_.dtype, MemoryKind::transient);
  b.put(Queue::compute, kernel::Copy{.dst = by_sample(rows_of(chunk, whole.begin, mine)),
                                     .src = own_.slice(1, row, mine.count())});
  std::vector<ConstView> src(static_cast<std::size_t>(run.seq.size()));
  std::vector<View> dst(src.size());
  for (int g = 0; g < layout.groups(); ++g) {
    if (g == me) continue;
    const auto rank = static_cast<std::size_t>(rows_.rank_of(g));
    src[rank] = rows_of(chunk, whole.begin, rows_.needed_of(g, c, me));
    dst[rank] = rows_of(chunk, whole.begin, rows_.needed_of(me, c, g));
  }
  b.wait(Queue::exchange, b.record(Queue::compute));
  Arriving next{
      chunk, run.seq.exchange(b, Queue::exchange, dst, src,
                              {OperationKind::exchange, "keys and values", run.pass.microbatch})};
  next.pending.keep(chunk);
  return next;
}

View KeyStream::chunk(int c) {
  if (rows_.layout.groups() == 1) return own_;
  here_.reset();
  if (!next_) next_ = exchange(c);
  here_ = std::exchange(next_, std::nullopt);
  here_->pending.wait(Queue::compute);
  if (c + 1 < rows_.layout.chunks()) next_ = exchange(c + 1);
  return by_sample(here_->rows_TBGD.view());
}

KeyGradients::KeyGradients(const KeyRows& rows, DType type, Put put)
    : rows_(rows), type_(type), put_(std::move(put)) {}

Tensor KeyGradients::start(int c) const {
  auto& b = rows_.run.backend;
  const Tensor sum =
      Tensor::empty(b, rows_.shape(rows_.layout.chunk(c).count()), type_, MemoryKind::transient);
  b.put(Queue::compute, kernel::Fill{.dst = sum.view(), .value = 0});
  return sum;
}

void KeyGradients::exchange(int c, Tensor sum_TBGD) {
  const auto& run = rows_.run;
  auto& b = run.backend;
  const int me = rows_.group();
  const auto first = rows_.layout.chunk(c).begin;
  Leaving leaving{c,
                  std::move(sum_TBGD),
                  std::vector<Tensor>(static_cast<std::size_t>(rows_.layout.groups())),
                  {}};
  if (rows_.layout.groups() > 1) {
    std::vector<ConstView> src(static_cast<std::size_t>(run.seq.size()));
    std::vector<View> dst(src.size());
    for (int g = 0; g < rows_.layout.groups(); ++g) {
      if (g == me) continue;
      const auto rank = static_cast<std::size_t>(rows_.rank_of(g));
      src[rank] = rows_of(leaving.sum_TBGD, first, rows_.needed_of(me, c, g));
      const auto needed = rows_.needed_of(g, c, me);
      if (needed.count() == 0) continue;
      auto& from = leaving.from[static_cast<std::size_t>(g)];
      from = Tensor::empty(b, rows_.shape(needed.count()), type_, MemoryKind::transient);
      dst[rank] = from.view();
    }
    b.wait(Queue::exchange, b.record(Queue::compute));
    leaving.pending = run.seq.exchange(
        b, Queue::exchange, dst, src,
        {OperationKind::exchange, "gradients of keys and values", run.pass.microbatch});
    leaving.pending.keep(leaving.sum_TBGD);
    for (const auto& t : leaving.from)
      if (t) leaving.pending.keep(t);
  }
  finish();
  before_ = std::move(leaving);
}

// Sums over groups in ascending order on every rank, so the order does not depend on the rank's own
// group.
void KeyGradients::finish() {
  if (!before_) return;
  auto done = std::exchange(before_, std::nullopt);
  auto& b = rows_.run.backend;
  if (done->pending.in_flight()) done->pending.wait(Queue::compute);
  const int me = rows_.group();
  const auto first = rows_.layout.chunk(done->c).begin;
  const auto mine = rows_.layout.block(me, done->c);
  if (rows_.layout.groups() == 1) return put_(done->c, done->sum_TBGD);
  const Tensor sum = Tensor::empty(b, rows_.shape(mine.count()), type_, MemoryKind::transient);
  b.put(Queue::compute, kernel::Fill{.dst = sum.view(), .value = 0});
  for (int g = 0; g < rows_.layout.groups(); ++g) {
    const auto needed = rows_.needed_of(g, done->c, me);
    if (needed.count() == 0) continue;
    b.put(Queue::compute,
          kernel::Copy{.dst = rows_of(sum, mine.begin, needed),
                       .src = g == me ? rows_of(done->sum_TBGD, first, needed)
                                      : done->from[static_cast<std::size_t>(g)].view(),
                       .how = Accumulate::add});
  }
  put_(done->c, sum);
}

}  // namespace trireme::ops
