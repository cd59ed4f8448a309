#include "lib/predict/recorder.hpp"

#include <set>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/comm/engine/operation.hpp"
#include "lib/comm/transport/pretended_transport.hpp"
#include "lib/predict/workloads.hpp"
#include "lib/train/snapshot.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {
namespace {

using What = Action::What;
using engine::Call;
using engine::Context;

DryTarget without_order(DryTarget t) {
  t.order = false;
  return t;
}

Transfer::Pattern pattern_of(const Call& c) {
  if (c.pattern == engine::Pattern::send) return Transfer::Pattern::send;
  if (c.pattern == engine::Pattern::receive) return Transfer::Pattern::receive;
  if (c.arriving == Accumulate::add || c.native.summands) return Transfer::Pattern::scatter;
  return c.own_src ? Transfer::Pattern::gather : Transfer::Pattern::exchange;
}

}  // namespace

Recorder::Recorder(DryTarget target, const PlanInput& in, Placement placement, int rank)
    : Dry(without_order(target)),
      placement_(placement),
      grid_(in.grid),
      kinds_(in),
      documents_(in.documents),
      shard_(shard_ranks(in.setup.zero, in.grid)),
      immediate_(target.properties.host_readable) {
  out_.rank = rank;
  out_.at = grid_.at(out_.rank);
  out_.ranks = grid_.ranks();
  out_.ranks_of_node = placement_.ranks_of_node;
}

void Recorder::start(const Axes& a) {
  comms_.emplace(a, shard_);
  for (std::size_t w = 0; w < spreads_.size(); ++w) {
    const auto members = comms_->members(static_cast<Comm>(w));
    spreads_[w] = node_spread_of(placement_, members);
    std::set<int> kinds;
    for (const int rank : members) kinds.insert(kinds_.of(rank));
    out_.members[w] = {kinds.begin(), kinds.end()};
  }
  on_ = true;
  // Scopes use a clock that counts actions.
  Trace::start([this] { return std::ssize(out_.actions); });
}

Recording Recorder::stop() {
  on_ = false;
  for (auto& s : Trace::stop())
    if (s.queue == Queue::compute)
      out_.scopes.push_back({std::move(s.name), std::move(s.unit), s.microbatch, s.begin, s.end});
  return std::move(out_);
}

int Recorder::index_of(const Workload& a) {
  const auto [it, fresh] = known_.try_emplace(a, static_cast<int>(out_.workloads.size()));
  if (fresh) out_.workloads.push_back(a);
  return it->second;
}

void Recorder::put_workload(Queue q, const Workload& a) {
  act({.what = What::compute, .queue = q, .index = index_of(a)});
}

void Recorder::put(Queue q, const kernel::Operation& o) {
  Dry::put(q, o);
  if (!writing()) return;
  const auto epilogues = immediate_ ? EpilogueTime::apart : EpilogueTime::fused;
  for (const auto& a : workloads_of(o, epilogues, documents_)) put_workload(q, a);
}

Event Recorder::record(Queue q) {
  const auto e = Dry::record(q);
  if (on_ && !immediate_) act({.what = What::record, .queue = q, .event = e});
  return e;
}

void Recorder::wait(Queue q, Event e) {
  Dry::wait(q, e);
  if (writing() && !immediate_ && e.ticket > 0 && e.queue != q)
    act({.what = What::wait, .queue = q, .event = e});
}

void Recorder::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  Dry::upload(q, dst, bytes);
  if (writing()) act({.what = What::upload, .queue = q});
}

void Recorder::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  Dry::download(q, bytes, src);
  if (writing()) act({.what = What::download, .queue = q});
}

void Recorder::count(Transfer& t, std::span<const int> world, const Call& c) const {
  const int here = placement_.node(out_.rank);
  const auto add = [&](Volume& near, Volume& far, int peer, std::int64_t elements) {
    const bool close = placement_.node(world[static_cast<std::size_t>(peer)]) == here;
    auto& volume = close ? near : far;
    volume.bytes += static_cast<double>(elements) * static_cast<double>(bytes_of(c.wire));
    ++volume.messages;
  };
  for (const auto& m : c.messages.out) add(t.out_near, t.out_far, m.peer, m.view.count());
  for (const auto& m : c.messages.in) add(t.in_near, t.in_far, m.peer, m.view.count());
  t.ranks = static_cast<int>(world.size());
  t.spread = spreads_[static_cast<std::size_t>(t.comm)];
}

void Recorder::call(const Context& context, Queue q, const Call& c) {
  if (!on_) return;
  within_call_ = true;
  Transfer t;
  t.pattern = pattern_of(c);
  t.comm = comms_->of(context);
  t.queue = q;
  t.doing = c.label.doing;
  t.unit = std::string(c.label.unit);
  t.microbatch = c.label.microbatch;
  const auto members = comms_->members(t.comm);
  count(t, members, c);
  if (c.peer >= 0) t.peer = kinds_.of(members[static_cast<std::size_t>(c.peer)]);
  const auto elements = [](const ConstView& v) { return static_cast<double>(v.count()); };
  if (c.own_dst)
    t.own =
        index_of(copy_workload(elements(c.own_src), c.own_src.dtype, c.own_dst.dtype, c.own_how));
  const auto sent = [&](double bytes) { return bytes / static_cast<double>(bytes_of(c.wire)); };
  if (c.wire != c.type && t.bytes_out() > 0)
    t.cast = index_of(copy_workload(sent(t.bytes_out()), c.type, c.wire, Accumulate::overwrite));
  if (c.arriving == Accumulate::add && t.bytes_in() > 0)
    t.sum = index_of(copy_workload(sent(t.bytes_in()), c.wire, c.type, Accumulate::add));
  act({.what = What::call, .queue = q, .index = static_cast<std::int32_t>(out_.transfers.size())});
  out_.transfers.push_back(std::move(t));
}

void Recorder::called(const engine::Operation& o) {
  if (!on_) return;
  within_call_ = false;
  in_flight_[&o] = static_cast<std::int32_t>(out_.transfers.size()) - 1;
}

void Recorder::wait(const engine::Operation& o) {
  const auto it = in_flight_.find(&o);
  if (!on_ || it == in_flight_.end()) return;
  act({.what = What::finish, .queue = o.queue(), .index = it->second});
  in_flight_.erase(it);
}

void Recorder::poll() {
  if (writing()) act({.what = What::poll});
}

void Recorder::agree(const Context&, std::size_t) {
  if (writing() && grid_.ranks() > 1) act({.what = What::agree});
}

Recording record_step(const PlanInput& in, const DryTarget& target, Placement placement, int rank,
                      Account* account) {
  Recorder recorder(target, in, placement, rank);
  const Workspace workspace(recorder);
  const auto axes = pretend_axes(in.grid, shard_ranks(in.setup.zero, in.grid), rank, in.comm);
  if (in.transport == TransportKind::device) connect(axes, transport::pretended_device);
  Trainer trainer(recorder, axes, in.setup);
  const auto microbatches = any_microbatches(in);
  const auto step = busiest_step(in);
  trainer.follow_freeze_rules(step);
  Snapshot snapshot;
  if (in.snapshot == PlanSnapshot::included) snapshot.reserve(trainer.store());
  axes.world.set_observer(&recorder);
  recorder.start(axes);
  trainer.step(step, 1e-3, microbatches);
  axes.world.set_observer(nullptr);
  if (account) *account = recorder.account();
  return recorder.stop();
}

}  // namespace trireme
