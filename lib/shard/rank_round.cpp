#include "lib/shard/rank_round.hpp"

#include <algorithm>

#include "lib/matrix/matrix_step.hpp"

namespace trireme {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

View part(const Tensor& buffer, std::int64_t at, Range r) {
  return buffer.slice(at, {r.count()}).view();
}

// Returns the elements of a matrix's square array in the segment's flat array.
Range square_elements(const GroupUpdate& update, const OwnedMatrix& m, const SquareSlots& square) {
  auto begin = square.slot_of(m.matrix.param)->begin;
  for (const auto& other : matrices_of(update.model.spec, m.matrix.param, update.optimizer.heads)) {
    if (other == m.matrix) break;
    begin += count_of(square.array, other);
  }
  return {begin, begin + count_of(square.array, m.matrix)};
}

}  // namespace

Range GroupUpdate::held(const OwnedMatrix& m, int rank) const {
  return intersection(m.elements, shard_range(segment(m), rank, ranks()));
}

UpdateFactors GroupUpdate::factors_of(const OwnedMatrix& m) const {
  auto f = factors;
  f.lr *= model.spec.params[m.matrix.param.index()].lr_factor;
  if (!model.layout.of_param[m.matrix.param.index()]->slot.decays) f.decay = 0;
  f.count = model.shards.count(m.matrix.param);
  return f;
}

RankRound::RankRound(const GroupUpdate& update) : update_(update) {
  const auto memory = [&](std::int64_t n, DType type) {
    return Tensor::empty(update_.model.backend, {n}, type, MemoryKind::transient, Queue::compute);
  };
  const auto& sizes = update_.plan.sizes;
  wide_ = memory(sizes.held, update_.master());
  sent_ = update_.compute() == update_.master() ? wide_ : memory(sizes.held, update_.compute());
  whole_ = memory(sizes.matrix, update_.compute());
  for (const auto& array : squares_of(update_.optimizer.rule)) {
    std::int64_t most = 0;
    for (const auto& round : update_.plan.rounds)
      for (const auto& m : round.matrices) most = std::max(most, count_of(array, m.matrix));
    squares_.push_back(memory(most, update_.master()));
  }
}

template <class F>
void RankRound::for_each_part(const F& f) const {
  std::int64_t at = 0;
  for (const auto& m : round_->matrices) {
    const auto r = update_.held(m, update_.me());
    if (r.count() == 0) continue;
    f(m, r, at);
    at += padded(r.count(), Layout::alignment);
  }
}

void RankRound::depart(const MatrixRound& round) {
  round_ = &round;
  kernel::Update step{.rule = before(update_.optimizer.rule), .shards = {}};
  std::int64_t used = 0;
  for_each_part([&](const OwnedMatrix& m, Range r, std::int64_t at) {
    auto factors = update_.factors_of(m);
    // The weights of this update are zeros, which become the step itself.
    factors.lr = -1;
    factors.decay = 0;
    used = at + r.count();
    step.shards.push_back({.master_N = part(wide_, at, r),
                           .copy_N = copy_of_part(at, r),
                           .grad_N = gradient(m, r),
                           .state_N = state(m, r, 0, step.rule),
                           .factors = factors});
  });
  if (used > 0) {
    update_.model.backend.put(Queue::compute,
                              kernel::Fill{.dst = wide_.slice(0, {used}).view(), .value = 0});
    update_.model.backend.put(Queue::compute, step);
  }
  exchange_parts(Way::to_owner);
}

void RankRound::compute(View compute, View wide) {
  arrive();
  if (const auto* const m = round_->of(update_.me())) {
    std::vector<View> squares;
    for (std::size_t k = 0; k < squares_.size(); ++k) {
      const auto n = width_of(squares_of(update_.optimizer.rule)[k], m->matrix);
      squares.push_back(squares_[k].slice(0, {n, n}).view());
    }
    matrix_step(update_.model.backend, update_.optimizer.rule,
                {.x_MN = whole_.slice(0, {m->matrix.rows, m->matrix.columns}).view(),
                 .squares = squares,
                 .count = update_.model.shards.count(m->matrix.param)},
                compute, wide, update_.order);
  }
  exchange_parts(Way::back);
}

void RankRound::apply() {
  arrive();
  kernel::Update step{.rule = after(update_.optimizer.rule), .shards = {}};
  const auto arrays_before = arrays_of(before(update_.optimizer.rule)).size();
  for_each_part([&](const OwnedMatrix& m, Range r, std::int64_t at) {
    auto factors = update_.factors_of(m);
    factors.scale = scale_of(update_.optimizer.scale, m.matrix.rows, m.matrix.columns);
    const auto [master, copy, arrays, names] = update_.model.shards.views(m.segment, r);
    if (update_.compute() != update_.master())
      update_.model.backend.put(Queue::compute,
                                kernel::Copy{.dst = part(wide_, at, r), .src = part(sent_, at, r)});
    step.shards.push_back({.master_N = master,
                           .copy_N = copy,
                           .grad_N = part(wide_, at, r),
                           .state_N = state(m, r, arrays_before, step.rule),
                           .factors = factors});
  });
  if (!step.shards.empty()) update_.model.backend.put(Queue::compute, step);
  round_ = nullptr;
}

// Returns an empty view if parts are sent in the master type.
View RankRound::copy_of_part(std::int64_t at, Range r) const {
  return update_.compute() == update_.master() ? View{} : part(sent_, at, r);
}

View RankRound::gradient(const OwnedMatrix& m, Range r) const {
  const auto mine = update_.model.sharding.own(update_.segment(m));
  return update_.model.gradients.sum(m.segment).slice(r.begin - mine.begin, {r.count()}).view();
}

std::vector<View> RankRound::state(const OwnedMatrix& m, Range r, std::size_t first,
                                   const UpdateRule& rule) const {
  const auto all = update_.model.shards.views(m.segment, r).arrays;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + std::ssize(arrays_of(rule))};
}

void RankRound::exchange_parts(Way way) {
  std::vector<View> mine(ranks()), owned(ranks());
  for_each_part([&](const OwnedMatrix& m, Range r, std::int64_t at) {
    mine[index(m.owner)] = part(sent_, at, r);
  });
  if (const auto* const m = round_->of(update_.me()))
    for (int rank = 0; rank < update_.ranks(); ++rank)
      if (const auto r = update_.held(*m, rank); r.count() > 0)
        owned[index(rank)] = whole_.slice(r.begin - m->elements.begin, {r.count()}).view();
  exchange(way, mine, owned, {update_.plan.sizes.sent, update_.compute()});
  for (std::size_t k = 0; k < squares_.size(); ++k) exchange_square(way, k);
}

void RankRound::exchange_square(Way way, std::size_t k) {
  std::vector<View> mine(ranks()), owned(ranks());
  std::int64_t most = 0;
  for (const auto& m : round_->matrices) {
    const auto& square = update_.model.shards.state(m.segment).squares[k];
    const auto all = square_elements(update_, m, square);
    const auto shard = square.elements / update_.ranks();
    most = std::max(most, std::min(shard, squares_[k].shape().count()));
    for (int rank = 0; rank < update_.ranks(); ++rank) {
      const auto r = intersection(all, shard_range(square.elements, rank, update_.ranks()));
      if (r.count() == 0) continue;
      if (rank == update_.me())
        mine[index(m.owner)] = update_.model.shards.square(m.segment, k)
                                   .slice(r.begin - rank * shard, {r.count()})
                                   .view();
      if (m.owner == update_.me())
        owned[index(rank)] = squares_[k].slice(r.begin - all.begin, {r.count()}).view();
    }
  }
  exchange(way, mine, owned, {most, update_.master()});
}

void RankRound::exchange(Way way, const std::vector<View>& mine, const std::vector<View>& owned,
                         ExchangeLimit most) {
  const auto& dst = way == Way::to_owner ? owned : mine;
  const std::vector<ConstView> src = way == Way::to_owner
                                         ? std::vector<ConstView>(mine.begin(), mine.end())
                                         : std::vector<ConstView>(owned.begin(), owned.end());
  const auto me = index(update_.me());
  if (src[me])
    update_.model.backend.put(Queue::compute, kernel::Copy{.dst = dst[me], .src = src[me]});
  if (update_.ranks() == 1) return;
  const auto queue = way == Way::to_owner ? Queue::scatter : Queue::gather;
  const auto& ranks = way == Way::to_owner ? update_.sharers.scatter : update_.sharers.gather;
  update_.model.backend.wait(queue, update_.model.backend.record(Queue::compute));
  pending_.push_back(ranks.exchange(update_.model.backend, queue, dst, src,
                                    {OperationKind::exchange, "matrices"}, most));
  for (const auto& t : {wide_, sent_, whole_}) pending_.back().keep(t);
  for (const auto& t : squares_) pending_.back().keep(t);
}

void RankRound::arrive() {
  for (auto& p : pending_) p.wait(Queue::compute);
  pending_.clear();
}

}  // namespace trireme
