#include "lib/shard/matrix_updates.hpp"

#include <algorithm>
#include <array>

#include "lib/matrix/matrix_step.hpp"
#include "lib/matrix/scratch.hpp"

namespace trireme {
namespace {

// What all rounds of one shard group use.
struct Group {
  Backend& backend;
  const ModelSpec& spec;
  const Layout& layout;
  const Sharding& sharding;
  const Shards& shards;
  const GradientSums& gradients;
  const MatrixOptimizer& optimizer;
  SumOrder order;
  const Sharers& sharers;
  const MatrixPlan& plan;
  UpdateFactors factors;

  int ranks() const { return sharers.gather.size(); }
  int me() const { return sharers.gather.rank(); }
  DType compute() const { return shards.compute(); }
  DType master() const { return shards.master(); }
  const Segment& segment(const OwnedMatrix& m) const { return layout.segments[m.segment]; }
  // Returns the elements of a matrix that a rank holds, in elements of the segment.
  Range held(const OwnedMatrix& m, int rank) const {
    const auto& s = segment(m);
    return intersection(m.elements, shard_range(s, rank, ranks()));
  }
  UpdateFactors factors_of(const OwnedMatrix& m) const {
    auto f = factors;
    const auto& s = segment(m);
    f.lr *= spec.params[m.matrix.param.index()].lr_factor;
    if (m.elements.begin >= s.decayed) f.decay = 0;
    f.count = shards.count(m.matrix.param);
    return f;
  }
};

// A square array of one matrix: its elements in the segment's flat array.
Range square_elements(const Group& g, const OwnedMatrix& m, const SquareSlots& square) {
  const auto& where = *g.layout.of_param[m.matrix.param.index()];
  auto begin = square.slots[where.number].begin;
  for (const auto& other : matrices_of(g.spec, m.matrix.param, g.optimizer.heads)) {
    if (other == m.matrix) break;
    begin += count_of(square.array, other);
  }
  return {begin, begin + count_of(square.array, m.matrix)};
}

// Memory of one round on one rank, and its messages.
class Round {
 public:
  explicit Round(const Group& g) : g_(g) {
    const auto& sizes = g.plan.sizes;
    const auto make = [&](std::int64_t n, DType type, Queue first) {
      return Tensor::empty(g.backend, {n}, type, MemoryKind::transient, first);
    };
    wide_ = make(sizes.held, g.master(), Queue::compute);
    sent_ = g.compute() == g.master() ? wide_ : make(sizes.held, g.compute(), Queue::compute);
    whole_ = make(sizes.matrix, g.compute(), Queue::compute);
    for (const auto& array : squares_of(g.optimizer.rule)) {
      std::int64_t most = 0;
      for (const auto& round : g.plan.rounds)
        for (const auto& m : round.matrices) most = std::max(most, count_of(array, m.matrix));
      squares_.push_back(make(most, g.master(), Queue::compute));
    }
  }

  // Computes the directions of this rank's parts, and starts to send them to their owners.
  void depart(const MatrixRound& round) {
    round_ = &round;
    kernel::Update step{.rule = before(g_.optimizer.rule), .shards = {}};
    g_.backend.put(Queue::compute, kernel::Fill{.dst = wide_.view(), .value = 0});
    for_each_part([&](const OwnedMatrix& m, Range r, std::int64_t at) {
      auto factors = g_.factors_of(m);
      // The weights of this update are zeros, which become the step itself.
      factors.lr = -1;
      factors.decay = 0;
      step.shards.push_back({.master_N = part(wide_, at, r),
                             .copy_N = copy_of_part(at, r),
                             .grad_N = gradient(m, r),
                             .state_N = state(m, r, 0, step.rule),
                             .factors = factors});
    });
    if (!step.shards.empty()) g_.backend.put(Queue::compute, step);
    exchange_parts(Way::to_owner);
  }

  // Computes the step of the matrix that this rank owns, and starts to send it back.
  void compute(View compute, View wide) {
    arrive();
    if (const auto* const m = round_->of(g_.me())) {
      std::vector<View> squares;
      for (std::size_t k = 0; k < squares_.size(); ++k) {
        const auto& array = squares_of(g_.optimizer.rule)[k];
        const auto n = array.side == MatrixSide::rows ? m->matrix.rows : m->matrix.columns;
        squares.push_back(squares_[k].slice(0, {n, n}).view());
      }
      matrix_step(g_.backend, g_.optimizer.rule,
                  {.x_MN = whole_.slice(0, {m->matrix.rows, m->matrix.columns}).view(),
                   .squares = squares,
                   .count = g_.shards.count(m->matrix.param)},
                  compute, wide, g_.order);
    }
    exchange_parts(Way::back);
  }

  // Updates this rank's parts of the weights.
  void apply() {
    arrive();
    kernel::Update step{.rule = after(g_.optimizer.rule), .shards = {}};
    const auto arrays_before = arrays_of(before(g_.optimizer.rule)).size();
    for_each_part([&](const OwnedMatrix& m, Range r, std::int64_t at) {
      auto factors = g_.factors_of(m);
      factors.scale = scale_of(g_.optimizer.scale, m.matrix.rows, m.matrix.columns);
      const auto [master, copy, arrays] = g_.shards.views(m.segment, r);
      if (g_.compute() != g_.master())
        g_.backend.put(Queue::compute,
                       kernel::Copy{.dst = part(wide_, at, r), .src = part(sent_, at, r)});
      step.shards.push_back({.master_N = master,
                             .copy_N = copy,
                             .grad_N = part(wide_, at, r),
                             .state_N = state(m, r, arrays_before, step.rule),
                             .factors = factors});
    });
    if (!step.shards.empty()) g_.backend.put(Queue::compute, step);
    round_ = nullptr;
  }

 private:
  enum class Way : std::uint8_t { to_owner, back };

  // Calls f(matrix, elements of the segment, place in this rank's buffers) for each part that this
  // rank holds.
  template <class F>
  void for_each_part(const F& f) const {
    std::int64_t at = 0;
    for (const auto& m : round_->matrices) {
      const auto r = g_.held(m, g_.me());
      if (r.count() == 0) continue;
      f(m, r, at);
      at += padded(r.count(), Layout::alignment);
    }
  }

  static View part(const Tensor& buffer, std::int64_t at, Range r) {
    return buffer.slice(at, {r.count()}).view();
  }
  View copy_of_part(std::int64_t at, Range r) const {
    return g_.compute() == g_.master() ? View{} : part(sent_, at, r);
  }
  View gradient(const OwnedMatrix& m, Range r) const {
    const auto mine = g_.sharding.own(g_.segment(m));
    return g_.gradients.sum(m.segment).slice(r.begin - mine.begin, {r.count()}).view();
  }
  // Returns the views of the rule's arrays, which begin at index `first` of the segment's arrays.
  std::vector<View> state(const OwnedMatrix& m, Range r, std::size_t first,
                          const UpdateRule& rule) const {
    const auto all = g_.shards.views(m.segment, r).arrays;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + std::ssize(arrays_of(rule))};
  }

  // Starts the exchange of the directions (or steps) and square arrays between the ranks that hold
  // them and the owners.
  void exchange_parts(Way way) {
    std::vector<View> mine(ranks()), owned(ranks());
    for_each_part([&](const OwnedMatrix& m, Range r, std::int64_t at) {
      mine[index(m.owner)] = part(sent_, at, r);
    });
    if (const auto* const m = round_->of(g_.me()))
      for (int rank = 0; rank < g_.ranks(); ++rank)
        if (const auto r = g_.held(*m, rank); r.count() > 0)
          owned[index(rank)] = whole_.slice(r.begin - m->elements.begin, {r.count()}).view();
    exchange(way, mine, owned, {g_.plan.sizes.sent, g_.compute()});
    for (std::size_t k = 0; k < squares_.size(); ++k) exchange_square(way, k);
  }

  void exchange_square(Way way, std::size_t k) {
    std::vector<View> mine(ranks()), owned(ranks());
    std::int64_t most = 0;
    for (const auto& m : round_->matrices) {
      const auto& square = g_.shards.state(m.segment).squares[k];
      const auto all = square_elements(g_, m, square);
      const auto shard = square.elements / g_.ranks();
      most = std::max(most, std::min(shard, squares_[k].shape().count()));
      for (int rank = 0; rank < g_.ranks(); ++rank) {
        const auto r = intersection(all, shard_range(square.elements, rank, g_.ranks()));
        if (r.count() == 0) continue;
        if (rank == g_.me())
          mine[index(m.owner)] =
              g_.shards.square(m.segment, k).slice(r.begin - rank * shard, {r.count()}).view();
        if (m.owner == g_.me())
          owned[index(rank)] = squares_[k].slice(r.begin - all.begin, {r.count()}).view();
      }
    }
    exchange(way, mine, owned, {most, g_.master()});
  }

  // `mine[r]` is this rank's part of the matrix that rank r owns. `owned[r]` is the part that rank
  // r holds of the matrix that this rank owns.
  void exchange(Way way, const std::vector<View>& mine, const std::vector<View>& owned,
                ExchangeLimit most) {
    const auto& dst = way == Way::to_owner ? owned : mine;
    const std::vector<ConstView> src = way == Way::to_owner
                                           ? std::vector<ConstView>(mine.begin(), mine.end())
                                           : std::vector<ConstView>(owned.begin(), owned.end());
    const auto me = index(g_.me());
    if (src[me]) g_.backend.put(Queue::compute, kernel::Copy{.dst = dst[me], .src = src[me]});
    if (g_.ranks() == 1) return;
    const auto queue = way == Way::to_owner ? Queue::scatter : Queue::gather;
    const auto& ranks = way == Way::to_owner ? g_.sharers.scatter : g_.sharers.gather;
    g_.backend.wait(queue, g_.backend.record(Queue::compute));
    pending_.push_back(
        ranks.exchange(g_.backend, queue, dst, src, {OperationKind::exchange, "matrices"}, most));
    for (const auto& t : {wide_, sent_, whole_}) pending_.back().keep(t);
    for (const auto& t : squares_) pending_.back().keep(t);
  }

  void arrive() {
    for (auto& p : pending_) p.wait(Queue::compute);
    pending_.clear();
  }

  std::size_t ranks() const { return static_cast<std::size_t>(g_.ranks()); }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  const Group& g_;
  const MatrixRound* round_ = nullptr;
  // This rank's parts, in the master type and as they are sent (possibly the same), and the matrix
  // that this rank owns with its square arrays.
  Tensor wide_, sent_, whole_;
  std::vector<Tensor> squares_;
  std::vector<Pending> pending_;
};

// Runs all rounds. Three are alive at a time: one departs, one is computed, and one returns.
void run(const Group& g) {
  const auto& rounds = g.plan.rounds;
  if (rounds.empty()) return;
  MatrixScratch most;
  for (const auto& round : rounds)
    for (const auto& m : round.matrices) {
      const auto s = step_scratch(g.optimizer.rule, m.matrix.rows, m.matrix.columns);
      most = {std::max(most.compute, s.compute), std::max(most.wide, s.wide)};
    }
  const auto scratch = [&](std::int64_t n, DType type) {
    return Tensor::empty(g.backend, {n}, type, MemoryKind::transient);
  };
  const Tensor compute = scratch(most.compute, g.compute()), wide = scratch(most.wide, g.master());
  const auto alive = g.ranks() == 1 ? 1 : std::min<std::size_t>(3, rounds.size());
  std::vector<Round> buffers;
  for (std::size_t i = 0; i < alive; ++i) buffers.emplace_back(g);
  const auto at = [&](std::size_t r) -> Round& { return buffers[r % alive]; };
  if (alive == 1) {
    for (const auto& round : rounds) {
      buffers[0].depart(round);
      buffers[0].compute(compute.view(), wide.view());
      buffers[0].apply();
    }
    return;
  }
  for (std::size_t r = 0; r < rounds.size() + 2; ++r) {
    if (r < rounds.size()) at(r).depart(rounds[r]);
    if (r >= 1 && r - 1 < rounds.size()) at(r - 1).compute(compute.view(), wide.view());
    if (r >= 2) at(r - 2).apply();
  }
}

}  // namespace

MatrixUpdates::MatrixUpdates(Backend& b, const ModelSpec& spec, const Layout& layout,
                             const Sharding& sharding, const Shards& shards,
                             const GradientSums& gradients,
                             std::optional<MatrixOptimizer> optimizer, bool exact)
    : backend_(b),
      spec_(spec),
      layout_(layout),
      sharding_(sharding),
      shards_(shards),
      gradients_(gradients),
      optimizer_(std::move(optimizer)),
      exact_(exact) {}

// If several ranks compute the step of one matrix, their bits must be equal, even if the ranks have
// different numbers of threads.
SumOrder MatrixUpdates::order(bool of_experts) const {
  const auto& sharers = of_experts ? sharding_.experts : sharding_.stage;
  const bool repeated = sharers.replicas.size() > 1 || sharding_.tied_stage >= 0;
  return exact_ || (repeated && backend_.properties().invariant) ? SumOrder::by_shape
                                                                 : SumOrder::any;
}

const MatrixPlan& MatrixUpdates::plan(const Trainability& trainability, bool of_experts) {
  std::vector<std::size_t> segments;
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto& s = layout_.segments[i];
    if (s.as_matrices && s.of_experts == of_experts && trainability.trains(s))
      segments.push_back(i);
  }
  auto& planned = planned_[of_experts ? 1 : 0];
  if (segments != planned.segments) {
    const auto cost = [&](const Matrix& m) {
      return step_flops(optimizer_->rule, m.rows, m.columns);
    };
    const int ranks = (of_experts ? sharding_.experts : sharding_.stage).gather.size();
    planned = {segments, plan_matrices(spec_, layout_, segments, optimizer_->heads, ranks, cost)};
  }
  return planned.plan;
}

void MatrixUpdates::update(const UpdateFactors& factors, const Trainability& trainability) {
  if (!optimizer_) return;
  for (const bool of_experts : {false, true})
    run({backend_, spec_, layout_, sharding_, shards_, gradients_, *optimizer_, order(of_experts),
         of_experts ? sharding_.experts : sharding_.stage, plan(trainability, of_experts),
         factors});
}

}  // namespace trireme
