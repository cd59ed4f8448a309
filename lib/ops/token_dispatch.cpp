#include "lib/ops/token_dispatch.hpp"

#include <algorithm>
#include <span>

#include "lib/ops/support.hpp"

namespace trireme::ops {

static View rows_at(const Tensor& t, std::int64_t begin, std::int64_t n) {
  return t.view().slice(0, begin, n);
}

Tensor gather_counts(const Run& run, const Tensor& count_LE) {
  auto& b = run.backend;
  const auto& ranks = run.expert_group->ranks;
  const auto n = count_LE.shape().count();
  Tensor all = Tensor::empty(b, {ranks.size() * n}, DType::i64, MemoryKind::transient);
  b.wait(Queue::exchange, b.record(Queue::compute));
  auto pending =
      ranks.all_gather(b, Queue::exchange, all.view(), count_LE.view().reshaped({n}),
                       {OperationKind::exchange, "counts of tokens", run.pass.microbatch});
  const Event e = pending.wait(Queue::compute);
  all.used(e);
  count_LE.used(e);
  return all;
}

// Sets the counts for an even load: of n rows, expert e receives floor(n (e + 1) / E) - floor(n e /
// E).
static void choose_evenly(ExpertCounts& c, std::int64_t rows) {
  c.rows.clear();
  for (std::int64_t leaf = 0; leaf < c.leaves; ++leaf) {
    const auto n = rows * (leaf + 1) / c.leaves - rows * leaf / c.leaves;
    for (std::int64_t e = 0; e < c.experts; ++e)
      c.rows.push_back(n * (e + 1) / c.experts - n * e / c.experts);
  }
  const auto of_rank = c.rows;
  for (int r = 1; r < c.ranks; ++r) c.rows.insert(c.rows.end(), of_rank.begin(), of_rank.end());
}

static ExpertCounts without_rows(ExpertCounts c) {
  std::ranges::fill(c.rows, 0);
  return c;
}

RoundPlan rounds_of(const Run& run, const Tensor& counts, std::int64_t rows, std::int64_t experts,
                    RoundMemory memory) {
  const auto& ranks = run.expert_group->ranks;
  RoundPlan r;
  r.counts.ranks = ranks.size();
  r.counts.experts = experts;
  r.counts.leaves = counts.shape().count() / (ranks.size() * experts);
  if (run.pass.phase == Phase::train) r.counts.leaf_rows = run.pass.exact_chunk;
  r.counts.rows.resize(static_cast<std::size_t>(counts.shape().count()));
  ranks.synchronize();
  run.backend.download(Queue::compute, std::as_writable_bytes(std::span(r.counts.rows)),
                       counts.view());
  if (!run.backend.keeps_values()) choose_evenly(r.counts, rows);
  const auto wanted = run.expert_group->rows_of_round;
  const bool plan = !run.backend.keeps_values();
  const auto lists = plan ? RowLists::counted : RowLists::made;
  const auto chunks = chunks_of_round(run.backend.host_readable());
  r.all = make_expert_rounds(r.counts, ranks.rank(), wanted, chunks, lists);
  r.most = rows_of_round(r.counts, owned_experts(experts, ranks.rank(), ranks.size()), wanted);
  // No rank holds more experts than rank 0.
  r.most_of_any = rows_of_round(r.counts, owned_experts(experts, 0, ranks.size()), wanted);
  // A plan allocates the memory of a second round, because the routers' choices may require one.
  if (plan && memory == RoundMemory::one_by_one) {
    r.all.push_back(
        make_expert_rounds(without_rows(r.counts), ranks.rank(), wanted, chunks, lists)[0]);
    r.all.back().pretended = true;
  }
  return r;
}

static Tensor upload_ids(Backend& b, std::span<const std::int32_t> ids, std::int64_t room) {
  Tensor t = Tensor::empty(b, {room}, DType::i32, MemoryKind::transient);
  if (!ids.empty())
    b.upload(Queue::compute, t.slice(0, {std::ssize(ids)}).view(), std::as_bytes(ids));
  return t;
}

TokenDispatch::TokenDispatch(const Run& run, const RoundPlan& plan, std::size_t number)
    : run_(run),
      round_(plan.all[number]),
      most_(plan.most),
      most_of_any_(plan.most_of_any),
      first_{0} {
  auto& b = run.backend;
  const auto& round = round_;
  std::vector<std::int32_t> place, back, token, offset;
  for (const auto& chunk : round.chunks) {
    received_.emplace_back();
    std::int64_t begin = 0;
    for (const auto n : chunk.receive) {
      received_.back().push_back({begin, n});
      begin += n;
    }
    const auto first = place.size();
    place.insert(place.end(), chunk.place.begin(), chunk.place.end());
    back.resize(place.size());
    for (std::size_t i = 0; i < chunk.place.size(); ++i)
      back[first + static_cast<std::size_t>(chunk.place[i])] = static_cast<std::int32_t>(i);
    offset.insert(offset.end(), chunk.offset.begin(), chunk.offset.end());
    first_.push_back(first_.back() + chunk.rows());
  }
  offset.insert(offset.end(), round.offset.begin(), round.offset.end());
  const auto leaf = std::max<std::int64_t>(run.pass.exact_chunk, 1);
  for (const auto l : round.leaf) token.push_back(static_cast<std::int32_t>(l * leaf));
  place_ = upload_ids(b, place, most_);
  back_ = upload_ids(b, back, most_);
  token_ = upload_ids(b, token, most_);
  const auto ends = std::ssize(round.offset);
  const Tensor offsets = upload_ids(b, offset, std::ssize(offset));
  for (std::int64_t i = 0; i < std::ssize(round.chunks); ++i) {
    const auto& o = round.chunks[static_cast<std::size_t>(i)].offset;
    // upper_bound - 1 is the last offset equal to 0: the first expert that has rows begins there.
    const auto first = std::max<std::int64_t>(std::ranges::upper_bound(o, 0) - o.begin() - 1, 0),
               last = std::ranges::lower_bound(o, o.back()) - o.begin();
    first_expert_.push_back(o.back() > 0 ? first : 0);
    const auto n = o.back() > 0 ? last - first + 1 : ends;
    chunk_offset_.push_back(offsets.slice(i * ends + first_expert_.back(), {n}));
    const auto known = o.begin() + first_expert_.back();
    known_offset_.emplace_back(known, known + n);
  }
  offset_ = offsets.slice(std::ssize(round.chunks) * ends, {ends});
}

// Sends rows give[r] of `from` to each rank r. Receives rows from rank r into rows take[r] of `to`.
Pending TokenDispatch::exchange(const Tensor& to, const std::vector<RowRange>& take,
                                const Tensor& from, const std::vector<RowRange>& give) const {
  if (round_.pretended) return {};
  auto& b = run_.backend;
  const auto& ranks = run_.expert_group->ranks;
  std::vector<View> dst;
  std::vector<ConstView> src;
  for (std::size_t r = 0; r < take.size(); ++r) {
    dst.push_back(take[r].count > 0 ? rows_at(to, take[r].begin, take[r].count) : View{});
    src.push_back(give[r].count > 0 ? ConstView(rows_at(from, give[r].begin, give[r].count))
                                    : ConstView{});
  }
  const auto me = static_cast<std::size_t>(ranks.rank());
  // Between any two ranks, at most a whole chunk of the rows of one owner travels.
  const auto rows = rows_of_chunk(most_of_any_, std::ssize(round_.chunks));
  b.wait(Queue::exchange, b.record(Queue::compute));
  auto pending = ranks.exchange(b, Queue::exchange, dst, src,
                                {OperationKind::exchange, "tokens", run_.pass.microbatch},
                                ExchangeLimit{rows * to.shape()[1], to.dtype()});
  pending.keep(to);
  pending.keep(from);
  if (src[me]) b.put(Queue::compute, kernel::Copy{.dst = dst[me], .src = src[me]});
  return pending;
}

// Copies rows `ids` of `from` to the first rows of `into`.
static void reorder(Backend& b, const Tensor& into, const Tensor& from, const Tensor& ids) {
  const auto n = ids.shape().count();
  b.put(Queue::compute,
        kernel::Embedding{
            .y_TC = rows_at(into, 0, n), .ids_T = ids.view(), .table_VC = rows_at(from, 0, n)});
}

Tensor TokenDispatch::rows_again(const ConstView& x_TC, const ConstView& ids_R) const {
  return round_.pretended ? room_for_rows(run_, x_TC, ids_R.count(), MemoryKind::transient)
                          : take_rows(run_, x_TC, ids_R, MemoryKind::transient);
}

std::vector<TokenDispatch::Moving> TokenDispatch::depart(std::size_t chunk,
                                                         const std::vector<Outgoing>& there) const {
  std::vector<Moving> moving;
  for (const auto& [rows, into] : there) {
    Tensor received = room_for_rows(run_, rows.view(), most_of_chunk(), MemoryKind::transient);
    auto pending = exchange(received, received_[chunk], rows, round_.chunks[chunk].send);
    moving.push_back({std::move(received), std::move(pending)});
  }
  return moving;
}

Tensor TokenDispatch::arrive(std::size_t chunk, Moving moving, const Tensor& into_NC) const {
  moving.pending.wait(Queue::compute);
  const auto first = first_[chunk], n = first_[chunk + 1] - first;
  if (n == 0 && into_NC) return {};
  const auto width = moving.rows.shape()[1];
  Tensor sorted =
      into_NC ? into_NC.slice(first * width, {n, width})
              : room_for_rows(run_, moving.rows.view(), most_of_chunk(), MemoryKind::transient);
  if (n > 0) reorder(run_.backend, sorted, moving.rows, place_.slice(first, {n}));
  return sorted;
}

Pending TokenDispatch::send_back(std::size_t chunk, const Returned& back) const {
  const auto first = first_[chunk], n = first_[chunk + 1] - first;
  const Tensor leaving =
      room_for_rows(run_, back.into_RC.view(), most_of_chunk(), MemoryKind::transient);
  if (n > 0) reorder(run_.backend, leaving, back.rows_NC, back_.slice(first, {n}));
  return exchange(back.into_RC, round_.chunks[chunk].send, leaving, received_[chunk]);
}

TokenDispatch::Returning TokenDispatch::through(
    const std::vector<Outgoing>& there,
    const std::function<ChunkResults(const Chunk&, std::vector<Tensor>)>& compute) const {
  Returning last;
  auto next = depart(0, there);
  for (std::size_t i = 0; i < round_.chunks.size(); ++i) {
    auto moving = std::move(next);
    if (i + 1 < round_.chunks.size()) next = depart(i + 1, there);
    std::vector<Tensor> arrived;
    for (std::size_t k = 0; k < there.size(); ++k)
      arrived.push_back(arrive(i, std::move(moving[k]), there[k].into_NC));
    const auto made = compute({first_[i], first_[i + 1] - first_[i], first_expert_[i],
                               chunk_offset_[i], known_offset_[i]},
                              std::move(arrived));
    last.wait();
    for (const auto& back : made)
      if (back.into_RC) last.pending_.push_back(send_back(i, back));
  }
  return last;
}

void TokenDispatch::Returning::wait() {
  for (auto& p : pending_) p.wait(Queue::compute);
  pending_.clear();
}

}  // namespace trireme::ops
