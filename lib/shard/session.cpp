#include "lib/shard/session.hpp"

#include <algorithm>

namespace trireme {

static std::size_t index_of_unit(const ModelSpec& spec, std::span<const Borrow> units, ParamId p) {
  const auto it = std::ranges::find(units, spec.params[p.index()].unit, &Borrow::unit);
  if (it == units.end())
    fail("parameter {} was not borrowed for this computation: it belongs to the unit {}",
         spec.params[p.index()].name, spec.units[spec.params[p.index()].unit.index()]);
  return static_cast<std::size_t>(it - units.begin());
}

ConstView BorrowedWeights::operator[](ParamId p) const {
  const auto& spec = store_.spec();
  const auto& held = held_[index_of_unit(spec, units_, p)];
  const auto& where = *store_.layout().of_param[p.index()];
  const auto& segments = store_.layout().of_unit[held.gathered->unit.index()];
  const auto k = std::ranges::find(segments, where.segment) - segments.begin();
  const auto& widened = held.widened[static_cast<std::size_t>(k)];
  if (!widened && store_.sharding().of(store_.layout().segments[where.segment]).whole())
    return store_.shards().weight(p);
  return (widened ? widened : held.gathered->flat[static_cast<std::size_t>(k)])
      .slice(where.slot.begin, spec.params[p.index()].shape)
      .view();
}

BorrowedGradients::Destination BorrowedGradients::destination(std::span<const ParamId> params) {
  std::vector<View> dst;
  // Whether the gradients were written before. All parameters of one call must agree.
  std::optional<std::uint8_t> before;
  for (const ParamId p : params) {
    if (!store_.trainable()[p.index()]) {
      dst.emplace_back();
      continue;
    }
    const auto use = units_[index_of_unit(store_.spec(), units_, p)].use;
    const auto& where = *store_.layout().of_param[p.index()];
    const auto held = std::ranges::find_if(
        held_, [&](const Held& h) { return h.segment == where.segment && h.use == use; });
    auto& written = held->buffer->written[where.number];
    require(!before || *before == written,
            "the gradient of {} is added to an existing sum and that of the preceding parameter is "
            "not, or the reverse. An operation must treat all of its parameters in the same way",
            store_.spec().params[p.index()].name);
    before = written;
    written = 1;
    dst.push_back(
        held->buffer->flat.slice(where.slot.begin, store_.spec().params[p.index()].shape).view());
  }
  return {std::move(dst), before.value_or(0) ? Accumulate::add : Accumulate::overwrite};
}

void BorrowedGradients::add(std::span<const ParamId> params, std::int64_t rows, const Fill& fill) {
  if (store_.gradients().exact_chunk() > 0) return add_leaves(params, rows, fill);
  const auto [dst, how] = destination(params);
  fill({0, rows}, dst, how);
}

// Computes the gradient of each leaf separately, and then adds it to the fixed-point sums.
void BorrowedGradients::add_leaves(std::span<const ParamId> params, std::int64_t rows,
                                   const Fill& fill) {
  auto& sums = store_.gradients();
  auto& b = store_.backend();
  const auto chunk = sums.exact_chunk();
  require(rows % chunk == 0, "{} rows are not a multiple of run.exact_chunk = {}", rows, chunk);
  auto [dst, how] = destination(params);
  std::vector<Tensor> leaves;
  std::vector<View> views;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto& shape = store_.spec().params[params[i].index()].shape;
    if (dst[i]) leaves.push_back(Tensor::empty(b, shape, store_.master(), MemoryKind::transient));
    views.push_back(dst[i] ? leaves.back().view() : View{});
  }
  for (std::int64_t begin = 0; begin < rows; begin += chunk, how = Accumulate::add) {
    fill({begin, begin + chunk}, views, Accumulate::overwrite);
    for (std::size_t i = 0; i < params.size(); ++i)
      if (dst[i])
        b.put(Queue::compute, kernel::AddFixed{.sum_N = dst[i],
                                               .how = how,
                                               .x_N = views[i],
                                               .largest = sums.count_leaves(params[i], 1)});
  }
}

void BorrowedGradients::add_whole(std::span<const ParamId> params, std::int64_t leaves,
                                  const FillWhole& fill) {
  const auto [dst, how] = destination(params);
  std::vector<View> largest(params.size());
  if (store_.gradients().exact_chunk() > 0)
    for (std::size_t i = 0; i < params.size(); ++i)
      if (dst[i]) largest[i] = store_.gradients().count_leaves(params[i], leaves);
  fill(dst, largest, how);
}

Session::Session(Store& s, Purpose purpose, BorrowPlan plan)
    : store_(s),
      layout_(s.layout()),
      sharding_(s.sharding()),
      plan_(std::move(plan)),
      opened_(s, purpose),
      replicas_(s.gradients().replica_sums()) {
  for (const auto& g : plan_.gradients) borrows_left_[{g.unit, g.use}] = g.borrows;
  // All-gathers may send shards only after the compute queue has written them.
  if (sharding_.stage.whole() && sharding_.experts.whole()) return;
  if (purpose == Purpose::train)
    encoded_.emplace(s.backend(), s.spec(), layout_, sharding_, s.shards());
  s.backend().wait(Queue::gather, s.backend().record(Queue::compute));
}

bool Session::is_encoded(std::size_t segment) const {
  return encoded_ && encoded_->codes(segment);
}

const Tensor& Session::sent(std::size_t segment) const {
  return is_encoded(segment) ? encoded_->codes(segment) : store_.shards().copy(segment);
}

void Session::start_next() {
  const auto& step = plan_.gathers[gathered_.size()];
  auto g = std::make_shared<Gathered>();
  g->unit = step.unit;
  g->uses = step.uses;
  auto& b = store_.backend();
  if (step.uses == 0) {  // all uses were skipped before the gather started
    gathered_.push_back(nullptr);
    return;
  }
  for (const auto i : layout_.of_unit[step.unit.index()]) {
    const auto& segment = layout_.segments[i];
    auto& flat = g->flat.emplace_back();
    if (sharding_.of(segment).whole()) continue;
    const Tensor& own = sent(i);
    flat = Tensor::empty(b, {own.shape().count() * sharding_.of(segment).gather.size()},
                         own.dtype(), MemoryKind::gathered, Queue::gather);
    g->pending.push_back(sharding_.of(segment).gather.all_gather(
        b, Queue::gather, flat.view(), own.view(),
        {OperationKind::gather, segment.name, step.microbatch}));
    g->pending.back().keep(flat);
    if (is_encoded(i)) g->pending.back().keep(own);
  }
  gathered_.push_back(std::move(g));
}

std::shared_ptr<Gathered> Session::take(UnitId unit) {
  require(next_read_ < plan_.reads.size(), "the program borrows {} after the last step of its plan",
          name_of(unit));
  const auto at = plan_.reads[next_read_++];
  const auto& step = plan_.gathers[at];
  require(step.unit == unit, "the program borrows {}, but its plan has {} at this point",
          name_of(unit), name_of(step.unit));
  while (gathered_.size() <= at) start_next();
  auto g = gathered_[at];
  taken_ = std::max(taken_, at + 1);
  if (--g->uses == 0 && !step.stays) gathered_[at].reset();
  return g;
}

void Session::skip(std::span<const Borrow> read, std::span<const Borrow> added) {
  for (const auto& b : read) {
    expect(next_read_ < plan_.reads.size(), "what is left out is in the plan");
    const auto at = plan_.reads[next_read_++];
    expect(plan_.gathers[at].unit == b.unit, "units are left out in the plan's order");
    if (at >= gathered_.size()) {
      --plan_.gathers[at].uses;
    } else if (auto& g = gathered_[at]; --g->uses == 0) {
      arrive(*g);
      if (!plan_.gathers[at].stays) g.reset();
    }
  }
  for (const auto& b : added) --borrows_left_[{b.unit, b.use}];
}

void Session::look_ahead() {
  const auto ahead = taken_ + static_cast<std::size_t>(sharding_.policy.prefetch);
  while (gathered_.size() < std::min(ahead, plan_.gathers.size())) start_next();
}

void Session::arrive(Gathered& g) {
  for (auto& p : g.pending) p.wait(Queue::compute);
  g.pending.clear();
}

BorrowedWeights Session::gather(std::span<const Borrow> units) {
  BorrowedWeights borrowed(store_, units);
  for (const auto& b : units) borrowed.held_.push_back({take(b.unit), {}});
  if (!units.empty()) look_ahead();
  for (auto& held : borrowed.held_) arrive(*held.gathered);
  for (auto& held : borrowed.held_) held.widened = widen(*held.gathered);
  return borrowed;
}

std::vector<Tensor> Session::widen(const Gathered& g) {
  const auto& segments = layout_.of_unit[g.unit.index()];
  std::vector<Tensor> widened(segments.size());
  for (std::size_t k = 0; k < segments.size(); ++k) {
    const auto& segment = layout_.segments[segments[k]];
    const auto& shards = store_.shards();
    const bool encoded = is_encoded(segments[k]);
    if (!encoded && !shards.kept(segment).narrow()) continue;
    widened[k] = Tensor::empty(store_.backend(), {segment.elements}, shards.type_of(segment),
                               MemoryKind::gathered);
    if (encoded) {
      encoded_->decode(segments[k], widened[k].view(), g.flat[k].view());
      continue;
    }
    const auto& kept = sharding_.of(segment).whole() ? shards.copy(segments[k]) : g.flat[k];
    put_widened(store_.backend(), widened[k].view(), kept.view());
  }
  return widened;
}

BorrowedGradients Session::gradients(std::span<const Borrow> units, int microbatch) {
  BorrowedGradients borrowed(store_, units, microbatch);
  for (const auto& b : units)
    for (const auto i : layout_.of_unit[b.unit.index()]) {
      if (!store_.trainability().trains(layout_.segments[i])) continue;
      auto& kept = kept_[{i, b.use}];
      if (!kept) kept = store_.gradients().buffer(i, b.use);
      borrowed.held_.push_back({i, b.use, kept});
    }
  return borrowed;
}

// Completes the unit's segments. Units complete in the same order on all ranks of a stage.
void Session::complete(UnitId unit) {
  for (const auto i : layout_.of_unit[unit.index()])
    if (store_.trainability().trains(layout_.segments[i]))
      store_.gradients().complete(i, replicas_);
}

void Session::land() {
  auto [pending, last] = std::move(leaving_.front());
  leaving_.pop_front();
  for (auto& p : pending) p.wait(Queue::compute);
  if (last) complete(*last);
}

void Session::scatter(BorrowedGradients borrowed) {
  for (const auto& borrow : borrowed.units_) {
    const int left = --borrows_left_[{borrow.unit, borrow.use}];
    if (left > 0 && plan_.reduce_at_last) continue;
    Leaving out;
    for (auto& h : borrowed.held_) {
      const auto& segment = layout_.segments[h.segment];
      if (segment.unit != borrow.unit || sharding_.of(segment).whole()) continue;
      if (out.pending.empty())
        while (static_cast<int>(leaving_.size()) >= sharding_.policy.scatters) land();
      out.pending.push_back(
          store_.gradients().reduce(h.segment, h.use, *h.buffer, borrowed.microbatch_));
      kept_.erase({h.segment, h.use});
    }
    if (out.pending.empty()) {  // the gradients were added in place
      if (left == 0) complete(borrow.unit);
      continue;
    }
    if (left == 0) out.last = borrow.unit;
    leaving_.push_back(std::move(out));
  }
}

void Session::close() {
  while (!leaving_.empty()) land();
  replicas_.finish();
  if (next_read_ < plan_.reads.size())
    fail("the program ended before it borrowed {}, which is next in its plan",
         name_of(plan_.gathers[plan_.reads[next_read_]].unit));
  for (const auto& [use, borrows] : borrows_left_)
    require(borrows == 0, "the program ended, but {} planned gradients of {} were not sent",
            borrows, name_of(use.first));
  gathered_.clear();
}

}  // namespace trireme
