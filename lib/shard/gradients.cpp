// From the gradients of a step's microbatches to what the optimizer reads.
#include <algorithm>

#include "lib/shard/store.hpp"

namespace trireme {

void Store::start_gradients() {
  for (auto& s : shards_) {
    s.reduced = {};
    for (auto& g : s.gradient)
      if (g) std::ranges::fill(g->written, 0);
  }
  pending_ = true;
}

// Zeros where nothing was added, and between the slots: what is sent is always a number.
void Store::clear_unwritten(const Segment& segment, const GradientBuffer& g) const {
  std::int64_t end = 0;
  const auto clear = [&](std::int64_t to) {
    if (to > end)
      backend_.put(Queue::compute,
                   kernel::Fill{.dst = g.flat.slice(end, {to - end}).view(), .value = 0});
  };
  for (std::size_t k = 0; k < segment.slots.size(); ++k) {
    if (!g.written[k]) continue;
    clear(segment.slots[k].begin);
    end = segment.slots[k].begin + segment.slots[k].count;
  }
  clear(segment.elements);
}

// The uses made on this stage: shards that nothing was added to are zero.
void Store::complete_own_gradients() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    auto& s = shards_[i];
    for (std::size_t use = 0; use < s.gradient.size(); ++use) {
      if (!s.gradient[use]) continue;
      if (tied_away(segment) && use != static_cast<std::size_t>(sharding_.tied_use)) continue;
      if (sharding_.whole())
        clear_unwritten(segment, *s.gradient[use]);
      else if (!s.reduced[use])
        backend_.put(Queue::compute, kernel::Fill{.dst = s.gradient[use]->flat.view(), .value = 0});
    }
  }
}

void Store::send_tied(const Tensor& flat, const Segment& segment) {
  backend_.wait(Queue::scatter, backend_.record(Queue::compute));
  auto sent = sharding_.stages.send(backend_, Queue::scatter, flat.view(), sharding_.tied_stage,
                                    {Doing::tie, segment.name, 0});
  flat.used(sent.wait(Queue::compute));
}

void Store::receive_tied(const Tensor& flat, const Segment& segment) {
  backend_.wait(Queue::scatter, backend_.record(Queue::compute));
  auto received = sharding_.stages.receive(backend_, Queue::scatter, flat.view(),
                                           sharding_.tied_stage, {Doing::tie, segment.name, 0});
  flat.used(received.wait(Queue::compute));
}

// Both uses of a tied table, in the order of Use, where both are made here or by the stage that
// makes the first. The other stage gets what comes of it all, so that the copies stay equal
// whatever order a wire sums in.
void Store::add_tied_uses() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    const auto& g = shards_[i].gradient;
    if (!g[1]) continue;
    if (!sums_here(segment)) {
      send_tied(g[1]->flat, segment);
      continue;
    }
    if (tied_away(segment)) receive_tied(g[1]->flat, segment);
    backend_.put(
        Queue::compute,
        kernel::Copy{.dst = g[0]->flat.view(), .src = g[1]->flat.view(), .how = Accumulate::add});
  }
}

void Store::share_tied_sums() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    const auto& g = shards_[i].gradient;
    if (!g[1] || !tied_away(segment)) continue;
    if (sums_here(segment))
      send_tied(g[0]->flat, segment);
    else
      receive_tied(g[0]->flat, segment);
  }
}

// Over equal shards: each replica sums one part of it and the parts are gathered again.
void Store::sum_replicas() {
  const auto& r = sharding_.replicas;
  if (r.size() == 1) return;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].trainable || !sums_here(layout_.segments[i])) continue;
    const Tensor& flat = shards_[i].gradient[0]->flat;
    const auto n = flat.shape().count() / r.size();
    const Label label{Doing::scatter, layout_.segments[i].name, 0};
    const View part = flat.slice(r.rank() * n, {n}).view();
    backend_.wait(Queue::scatter, backend_.record(Queue::compute));
    auto sum = r.reduce_scatter(backend_, Queue::scatter, part, flat.view(), Accumulate::overwrite,
                                wire(), label);
    flat.used(sum.wait(Queue::compute));
    auto all = r.all_gather(backend_, Queue::scatter, flat.view(), part, label);
    flat.used(all.wait(Queue::compute));
  }
}

std::vector<double> Store::finish_gradients() {
  auto& b = backend_;
  complete_own_gradients();
  add_tied_uses();
  sum_replicas();
  share_tied_sums();
  std::vector<std::size_t> params;  // that this rank speaks for, a view of each
  std::vector<ConstView> own_parts;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    if (!shards_[i].trainable || !speaks_for(segment)) continue;
    const auto mine = own(segment);
    for (const auto& slot : segment.slots) {
      const auto r = intersection(mine, {slot.begin, slot.begin + slot.count});
      if (r.count() == 0) continue;
      params.push_back(static_cast<std::size_t>(slot.param.value));
      own_parts.push_back(
          shards_[i].gradient[0]->flat.slice(r.begin - mine.begin, {r.count()}).view());
    }
  }
  std::vector<double> result(spec_.params.size());
  if (params.empty()) {
    sharding_.gather.synchronize();
    return result;
  }
  const auto count = static_cast<std::int64_t>(params.size());
  const Tensor squares = Tensor::empty(b, {count}, DType::f64, Kind::transient);
  b.put(Queue::compute, kernel::SumSquares{.out_N = squares.view(), .x = own_parts});
  sharding_.gather.synchronize();
  std::vector<double> sums(params.size());
  b.download(Queue::compute, std::as_writable_bytes(std::span(sums)), squares.view());
  for (std::size_t i = 0; i < params.size(); ++i) result[params[i]] = sums[i];
  return result;
}

}  // namespace trireme
