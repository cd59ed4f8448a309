#include "lib/ops/expert_travel.hpp"

#include <algorithm>
#include <span>

#include "lib/ops/experts.hpp"

namespace trireme::ops {

static Tensor room_for_rows(const Run& run, const ConstView& x_TC, std::int64_t rows, Kind kind) {
  return Tensor::empty(run.backend, {rows, x_TC.extent[1]}, x_TC.dtype, kind);
}

Tensor take_rows(const Run& run, const ConstView& x_TC, const ConstView& ids_R, Kind kind) {
  const auto rows = ids_R.count();
  Tensor y = room_for_rows(run, x_TC, rows, kind);
  run.backend.put(
      Queue::compute,
      kernel::Embedding{.y_TC = y.view(), .ids_T = ids_R.reshaped({rows}), .table_VC = x_TC});
  return y;
}

// Rows [begin, begin + n) of a matrix.
static View rows_at(const Tensor& t, std::int64_t begin, std::int64_t n) {
  return t.view().slice(0, begin, n);
}

Tensor gather_counts(const Run& run, const Tensor& count_LE) {
  auto& b = run.backend;
  const auto& ranks = run.experts->ranks;
  const auto n = count_LE.shape().count();
  Tensor all = Tensor::empty(b, {ranks.size() * n}, DType::i64, Kind::transient);
  b.wait(Queue::exchange, b.record(Queue::compute));
  auto pending = ranks.all_gather(b, Queue::exchange, all.view(), count_LE.view().reshaped({n}),
                                  {Doing::exchange, "counts of tokens", run.place.microbatch});
  const Event e = pending.wait(Queue::compute);
  all.used(e);
  count_LE.used(e);
  return all;
}

// Every rank's rows shared evenly: of n rows, expert e has floor(n (e + 1) / E) - floor(n e / E).
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

ExpertRounds rounds_of(const Run& run, const Tensor& counts, std::int64_t rows,
                       std::int64_t experts, Rounds memory) {
  const auto& ranks = run.experts->ranks;
  ExpertRounds r;
  r.counts.ranks = ranks.size();
  r.counts.experts = experts;
  r.counts.leaves = counts.shape().count() / (ranks.size() * experts);
  if (run.place.phase == Phase::train) r.counts.leaf_rows = run.place.exact_chunk;
  r.counts.rows.resize(static_cast<std::size_t>(counts.shape().count()));
  ranks.synchronize();
  run.backend.download(Queue::compute, std::as_writable_bytes(std::span(r.counts.rows)),
                       counts.view());
  if (!run.backend.keeps_values()) choose_evenly(r.counts, rows);
  const auto wanted = run.experts->rows_of_round;
  const bool plan = !run.backend.keeps_values();
  const auto lists = plan ? RowLists::counted : RowLists::made;
  r.all = make_expert_rounds(r.counts, ranks.rank(), wanted, lists);
  r.most = rows_of_round(r.counts, owned_experts(experts, ranks.rank(), ranks.size()), wanted);
  // A plan takes what a second round would.
  if (plan && memory == Rounds::one_by_one) {
    r.all.push_back(make_expert_rounds(without_rows(r.counts), ranks.rank(), wanted, lists)[0]);
    r.all.back().pretended = true;
  }
  return r;
}

static Tensor upload_ids(Backend& b, std::span<const std::int32_t> ids, std::int64_t room) {
  Tensor t = Tensor::empty(b, {std::max<std::int64_t>(room, 1)}, DType::i32, Kind::transient);
  if (!ids.empty())
    b.upload(Queue::compute, t.slice(0, {std::ssize(ids)}).view(), std::as_bytes(ids));
  return t;
}

ExpertTravel::ExpertTravel(const Run& run, const ExpertRound& round, std::int64_t most)
    : run_(run), round_(round), most_(most) {
  std::int64_t begin = 0;
  for (const auto n : round.receive) {
    received_.push_back({begin, n});
    begin += n;
  }
  std::vector<std::int32_t> back(round.place.size()), token;
  for (std::size_t i = 0; i < back.size(); ++i)
    back[static_cast<std::size_t>(round.place[i])] = static_cast<std::int32_t>(i);
  const auto leaf = std::max<std::int64_t>(run.place.exact_chunk, 1);
  for (const auto l : round.leaf) token.push_back(static_cast<std::int32_t>(l * leaf));
  auto& b = run.backend;
  place_ = upload_ids(b, round.place, most);
  back_ = upload_ids(b, back, most);
  token_ = upload_ids(b, token, most);
  offset_ = upload_ids(b, round.offset, std::ssize(round.offset));
}

// Rows `give[r]` of `from` go to rank r, which takes them as its rows take[this rank] of `to`.
void ExpertTravel::exchange(const Tensor& to, const std::vector<RowRange>& take, const Tensor& from,
                            const std::vector<RowRange>& give) const {
  if (round_.pretended) return;
  auto& b = run_.backend;
  const auto& ranks = run_.experts->ranks;
  std::vector<View> dst;
  std::vector<ConstView> src;
  for (std::size_t r = 0; r < take.size(); ++r) {
    dst.push_back(take[r].count > 0 ? rows_at(to, take[r].begin, take[r].count) : View{});
    src.push_back(give[r].count > 0 ? ConstView(rows_at(from, give[r].begin, give[r].count))
                                    : ConstView{});
  }
  const auto me = static_cast<std::size_t>(ranks.rank());
  b.wait(Queue::exchange, b.record(Queue::compute));
  auto pending = ranks.exchange(b, Queue::exchange, dst, src,
                                {Doing::exchange, "tokens", run_.place.microbatch});
  if (src[me]) b.put(Queue::compute, kernel::Copy{.dst = dst[me], .src = src[me]});
  const Event e = pending.wait(Queue::compute);
  to.used(e);
  from.used(e);
}

Tensor ExpertTravel::rows_again(const ConstView& x_TC, const ConstView& ids_R) const {
  return round_.pretended ? room_for_rows(run_, x_TC, ids_R.count(), Kind::transient)
                          : take_rows(run_, x_TC, ids_R, Kind::transient);
}

Tensor ExpertTravel::to_experts(const Tensor& rows_RC, Kind kind) const {
  auto& b = run_.backend;
  const auto width = rows_RC.shape()[1];
  const auto room = [&](Kind k) {
    return Tensor::empty(b, {std::max<std::int64_t>(most_, 1), width}, rows_RC.dtype(), k);
  };
  const Tensor received = room(Kind::transient);
  exchange(received, received_, rows_RC, round_.send);
  Tensor sorted = room(kind);
  if (rows() > 0)
    b.put(Queue::compute, kernel::Embedding{.y_TC = rows_at(sorted, 0, rows()),
                                            .ids_T = place_.slice(0, {rows()}).view(),
                                            .table_VC = rows_at(received, 0, rows())});
  return sorted;
}

void ExpertTravel::from_experts(const Tensor& rows_NC, const Tensor& rows_RC) const {
  auto& b = run_.backend;
  const Tensor leaving = Tensor::empty(b, rows_NC.shape(), rows_NC.dtype(), Kind::transient);
  if (rows() > 0)
    b.put(Queue::compute, kernel::Embedding{.y_TC = rows_at(leaving, 0, rows()),
                                            .ids_T = back_.slice(0, {rows()}).view(),
                                            .table_VC = rows_at(rows_NC, 0, rows())});
  exchange(rows_RC, round_.send, leaving, received_);
}

}  // namespace trireme::ops
