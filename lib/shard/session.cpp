#include "lib/shard/session.hpp"

#include <algorithm>

namespace trireme {

static std::size_t borrowed(const ModelSpec& spec, std::span<const Borrow> units, ParamId p) {
  const auto it = std::ranges::find(units, spec.params[p.index()].unit, &Borrow::unit);
  if (it == units.end())
    fail("parameter {} was not borrowed here: its unit is {}", spec.params[p.index()].name,
         spec.units[spec.params[p.index()].unit.index()]);
  return static_cast<std::size_t>(it - units.begin());
}

ConstView Lease::operator[](ParamId p) const {
  const auto& spec = store_.spec();
  const auto& held = *held_[borrowed(spec, units_, p)];
  if (held.flat.empty()) return store_.weight(p);
  const auto& where = *store_.layout().of_param[p.index()];
  const auto& segments = store_.layout().of_unit[held.step.unit.index()];
  const auto k = std::ranges::find(segments, where.segment) - segments.begin();
  return held.flat[static_cast<std::size_t>(k)]
      .slice(where.slot.begin, spec.params[p.index()].shape)
      .view();
}

void GradientLease::add(std::span<const ParamId> params, std::int64_t rows, const Fill& fill) {
  std::vector<View> dst;
  std::optional<std::uint8_t> before;  // were they written? One answer serves the fill
  for (const ParamId p : params) {
    if (!store_.trainable()[p.index()]) {
      dst.emplace_back();
      continue;
    }
    const auto use = units_[borrowed(store_.spec(), units_, p)].use;
    const auto& where = *store_.layout().of_param[p.index()];
    const auto held = std::ranges::find_if(
        held_, [&](const Held& h) { return h.segment == where.segment && h.use == use; });
    const auto& slots = store_.layout().segments[where.segment].slots;
    const auto k =
        static_cast<std::size_t>(std::ranges::find(slots, p, &Slot::param) - slots.begin());
    auto& written = held->buffer->written[k];
    require(!before || *before == written,
            "{} is added to a gradient that is begun, the parameter before it is not",
            store_.spec().params[p.index()].name);
    before = written;
    written = 1;
    dst.push_back(
        held->buffer->flat.slice(where.slot.begin, store_.spec().params[p.index()].shape).view());
  }
  fill({0, rows}, dst, before.value_or(0) ? Accumulate::add : Accumulate::overwrite);
}

Session::Session(Store& s, Purpose purpose, BorrowPlan plan) : store_(s), plan_(std::move(plan)) {
  require(!s.open_, "the model's state is in use by another session: close that first");
  require(purpose == Purpose::forward || s.upkeep_ != Upkeep::forward,
          "the model was opened without gradients: it can be evaluated, not trained");
  if (const auto left = s.sharding_.gather.abandoned(); !left.empty())
    fail("something of an earlier program is still on its way: {}", fmt::join(left, ", "));
  s.require_settled();
  s.open_ = true;
  for (const auto& g : plan_.gradients) leases_left_[{g.unit, g.use}] = g.leases;
  if (purpose == Purpose::train) s.start_gradients();
  // What compute wrote into the shards comes before what is sent of them.
  if (s.sharding_.whole()) return;
  s.backend_.wait(Queue::gather, s.backend_.record(Queue::compute));
}

Session::~Session() {
  store_.open_ = false;
}

void Session::start_next() {
  auto g = std::make_shared<Gathered>();
  g->step = plan_.gathers[next_++];
  if (!store_.sharding_.whole())
    for (const auto i : store_.layout_.of_unit[g->step.unit.index()]) {
      const auto& segment = store_.layout_.segments[i];
      g->flat.push_back(Tensor::empty(store_.backend_, {segment.elements}, store_.compute_,
                                      Kind::gathered, Queue::gather));
      g->pending.push_back(store_.sharding_.gather.all_gather(
          store_.backend_, Queue::gather, g->flat.back().view(), store_.shards_[i].copy.view(),
          {Doing::gather, segment.name, g->step.microbatch}));
      g->pending.back().keep(g->flat.back());
    }
  open_.push_back(std::move(g));
}

std::shared_ptr<Gathered> Session::take(UnitId unit) {
  if (const auto it = resident_.find(unit); it != resident_.end()) return it->second;
  if (open_.empty() && next_ < plan_.gathers.size()) start_next();
  const auto& name = store_.spec_.units[unit.index()];
  require(!open_.empty(), "{} is borrowed after the end of the plan", name);
  auto g = open_.front();
  require(g->step.unit == unit, "{} is borrowed where the plan has {}", name,
          store_.spec_.units[g->step.unit.index()]);
  g->taken = true;
  const bool keep = store_.sharding_.gather_every == ZeroCadence::step;
  if (keep) resident_[unit] = g;
  if (keep || --g->step.uses == 0) open_.pop_front();
  return g;
}

void Session::look_ahead() {
  auto ahead = std::ranges::count(open_, false, [](const auto& g) { return g->taken; });
  for (; ahead < store_.sharding_.prefetch && next_ < plan_.gathers.size(); ++ahead) start_next();
}

void Session::arrive(Gathered& g) {
  for (auto& p : g.pending) p.wait(Queue::compute);
  g.pending.clear();
}

Lease Session::gather(std::span<const Borrow> units) {
  Lease lease(store_, units);
  for (const auto& b : units) lease.held_.push_back(take(b.unit));
  if (!units.empty()) look_ahead();
  for (const auto& g : lease.held_) arrive(*g);
  return lease;
}

GradientLease Session::gradients(std::span<const Borrow> units, int microbatch) {
  GradientLease lease(store_, units, microbatch);
  for (const auto& b : units)
    for (const auto i : store_.layout_.of_unit[b.unit.index()]) {
      auto& shard = store_.shards_[i];
      if (!shard.trainable) continue;
      const auto& segment = store_.layout_.segments[i];
      auto buffer = shard.gradient[static_cast<std::size_t>(b.use)];
      if (!store_.sharding_.whole()) {
        auto& kept = kept_[{i, b.use}];
        if (!kept)
          kept = std::make_shared<Store::GradientBuffer>(Store::GradientBuffer{
              Tensor::empty(store_.backend_, {segment.elements}, store_.master(), Kind::gradients),
              std::vector<std::uint8_t>(segment.slots.size(), 0)});
        buffer = kept;
      }
      lease.held_.push_back({i, b.use, std::move(buffer)});
    }
  return lease;
}

void Session::land() {
  for (auto& p : leaving_.front()) p.wait(Queue::compute);
  leaving_.pop_front();
}

void Session::scatter(GradientLease lease) {
  if (store_.sharding_.whole()) return;
  auto& b = store_.backend_;
  for (const auto& borrow : lease.units_) {
    if (--leases_left_[{borrow.unit, borrow.use}] > 0 &&
        store_.sharding_.reduce_every == ZeroCadence::step)
      continue;
    std::vector<Pending> out;
    for (auto& h : lease.held_) {
      const auto& segment = store_.layout_.segments[h.segment];
      if (segment.unit != borrow.unit) continue;
      if (out.empty()) {
        while (static_cast<int>(leaving_.size()) >= store_.sharding_.scatters) land();
      }
      store_.clear_unwritten(segment, *h.buffer);
      b.wait(Queue::scatter, b.record(Queue::compute));
      const auto use = static_cast<std::size_t>(h.use);
      auto& shard = store_.shards_[h.segment];
      out.push_back(store_.sharding_.scatter.reduce_scatter(
          b, Queue::scatter, shard.gradient[use]->flat.view(), h.buffer->flat.view(),
          shard.reduced[use] ? Accumulate::add : Accumulate::overwrite, store_.wire(),
          {Doing::scatter, segment.name, lease.microbatch_}));
      shard.reduced[use] = true;
      out.back().keep(std::move(h.buffer->flat));
      kept_.erase({h.segment, h.use});
    }
    if (!out.empty()) leaving_.push_back(std::move(out));
  }
}

void Session::close() {
  while (!leaving_.empty()) land();
  std::string left;
  const auto name = [&](const GatherStep& g) { return store_.spec_.units[g.unit.index()]; };
  if (!open_.empty())
    left = name(open_.front()->step);
  else if (next_ < plan_.gathers.size())
    left = name(plan_.gathers[next_]);
  require(left.empty(), "the program ended and nobody borrowed {}, which its plan has next", left);
  for (const auto& [use, leases] : leases_left_)
    require(leases == 0 || store_.sharding_.whole(),
            "the program ended with {} gradients of {} that its plan has and nobody sent", leases,
            store_.spec_.units[use.first.index()]);
  resident_.clear();
  closed_ = true;
}

}  // namespace trireme
