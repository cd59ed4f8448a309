#include "lib/shard/gradients.hpp"

#include <algorithm>

#include "lib/base/fixed.hpp"
#include "lib/base/timesheet.hpp"

namespace trireme {

static std::size_t index(Use use) {
  return static_cast<std::size_t>(use);
}

GradientSums::GradientSums(Backend& b, const ModelSpec& spec, const Layout& layout,
                           const Sharding& sharding, DType master, std::int64_t exact_chunk)
    : backend_(b),
      spec_(spec),
      layout_(layout),
      sharding_(sharding),
      exact_chunk_(exact_chunk),
      type_(exact_chunk > 0 ? DType::i64 : master),
      sums_(layout.segments.size()) {
  if (exact_chunk_ == 0) return;
  largest_ = Tensor::empty(b, {std::ssize(spec.params)}, DType::f32, MemoryKind::gradients);
  leaves_.resize(spec.params.size());
}

GradientBuffer GradientSums::block(std::size_t segment, std::int64_t elements) const {
  return {Tensor::empty(backend_, {elements}, type_, MemoryKind::gradients),
          std::vector<std::uint8_t>(layout_.segments[segment].slots.size(), 0)};
}

void GradientSums::hold(std::size_t i) {
  const auto& segment = layout_.segments[i];
  const std::size_t uses = sharding_.is_tied(segment) ? 2 : 1;
  for (std::size_t use = 0; use < uses; ++use) {
    auto& sum = sums_[i].of_use[use];
    sum = std::make_shared<GradientBuffer>(block(i, sharding_.own(segment).count()));
    backend_.put(Queue::compute, kernel::Fill{.dst = sum->flat.view(), .value = 0});
  }
}

void GradientSums::drop(std::size_t segment) {
  sums_[segment] = {};
}

void GradientSums::start() {
  for (auto& s : sums_) {
    s.begun = {};
    s.complete = false;
    for (auto& g : s.of_use)
      if (g) std::ranges::fill(g->written, 0);
  }
  if (!largest_) return;
  backend_.put(Queue::compute, kernel::Fill{.dst = largest_.view(), .value = 0});
  std::ranges::fill(leaves_, 0);
}

View GradientSums::count_leaves(ParamId p, std::int64_t leaves) {
  leaves_[p.index()] += static_cast<double>(leaves);
  return largest_.slice(static_cast<std::int64_t>(p.index()), {1}).view();
}

std::shared_ptr<GradientBuffer> GradientSums::buffer(std::size_t segment, Use use) const {
  if (sharding_.of(layout_.segments[segment]).whole()) return sums_[segment].of_use[index(use)];
  return std::make_shared<GradientBuffer>(block(segment, layout_.segments[segment].elements));
}

Pending GradientSums::reduce(std::size_t i, Use use, GradientBuffer& whole, int microbatch) {
  const auto& segment = layout_.segments[i];
  auto& sum = sums_[i];
  clear_unwritten(segment, whole);
  backend_.wait(Queue::scatter, backend_.record(Queue::compute));
  auto& begun = sum.begun[index(use)];
  auto leaving = sharding_.of(segment).scatter.reduce_scatter(
      backend_, Queue::scatter, sum.of_use[index(use)]->flat.view(), whole.flat.view(),
      begun ? Accumulate::add : Accumulate::overwrite, wire(),
      {OperationKind::scatter, segment.name, microbatch});
  begun = true;
  leaving.keep(std::move(whole.flat));
  return leaving;
}

// Fills slots to which nothing was added, and gaps between slots, with zeros. All numbers that are
// sent are then defined.
void GradientSums::clear_unwritten(const Segment& segment, const GradientBuffer& g) const {
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

// Completes the gradients of the uses on this stage. Shards to which nothing was added become zero.
void GradientSums::complete_own_uses() const {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    if (sums_[i].complete) continue;
    for (std::size_t use = 0; use < sums_[i].of_use.size(); ++use) {
      const auto& g = sums_[i].of_use[use];
      if (!g || (sharding_.tied_elsewhere(segment) && use != index(sharding_.tied_use))) continue;
      if (sharding_.of(segment).whole())
        clear_unwritten(segment, *g);
      else if (!sums_[i].begun[use])
        backend_.put(Queue::compute, kernel::Fill{.dst = g->flat.view(), .value = 0});
    }
  }
}

void GradientSums::send_tied(const Tensor& flat, const Segment& segment) const {
  backend_.wait(Queue::scatter, backend_.record(Queue::compute));
  auto sent = sharding_.stages.send(backend_, Queue::scatter, flat.view(), sharding_.tied_stage,
                                    {OperationKind::tie, segment.name, 0});
  flat.used(sent.wait(Queue::compute));
}

void GradientSums::receive_tied(const Tensor& flat, const Segment& segment) const {
  backend_.wait(Queue::scatter, backend_.record(Queue::compute));
  auto received =
      sharding_.stages.receive(backend_, Queue::scatter, flat.view(), sharding_.tied_stage,
                               {OperationKind::tie, segment.name, 0});
  flat.used(received.wait(Queue::compute));
}

// Adds the gradients of the two uses of a tied table, in the order of Use. If the uses are on two
// stages, the stage with the first use adds them. share_tied_sums() then sends the sum to the other
// stage, so that both copies of the table stay equal even if device transports sum in different
// orders.
void GradientSums::add_tied_uses() const {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    const auto& g = sums_[i].of_use;
    if (!g[1]) continue;
    if (!sharding_.holds_sum(segment)) {
      send_tied(g[1]->flat, segment);
      continue;
    }
    if (sharding_.tied_elsewhere(segment)) receive_tied(g[1]->flat, segment);
    backend_.put(
        Queue::compute,
        kernel::Copy{.dst = g[0]->flat.view(), .src = g[1]->flat.view(), .how = Accumulate::add});
  }
}

void GradientSums::share_tied_sums() const {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    const auto& g = sums_[i].of_use;
    if (!g[1] || !sharding_.tied_elsewhere(segment)) continue;
    if (sharding_.holds_sum(segment))
      send_tied(g[0]->flat, segment);
    else
      receive_tied(g[0]->flat, segment);
  }
}

ReplicaSums GradientSums::replica_sums() const {
  return {backend_, wire(), sharding_.policy.scatters};
}

void GradientSums::complete(std::size_t i, ReplicaSums& replicas) {
  const auto& segment = layout_.segments[i];
  if (sharding_.is_tied(segment)) return;
  const auto& sharers = sharding_.of(segment);
  const bool whole = sharers.whole();
  if (whole) clear_unwritten(segment, *sums_[i].of_use[0]);
  sums_[i].complete = true;
  replicas.begin(sharers.replicas, sum(i), segment.name, whole ? Queue::compute : Queue::scatter);
}

// Sums the remaining segments over replicas: those that complete() did not sum during the backward
// pass.
void GradientSums::sum_replicas() {
  auto replicas = replica_sums();
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i].of_use[0] || sums_[i].complete || !sharding_.holds_sum(layout_.segments[i]))
      continue;
    const auto& segment = layout_.segments[i];
    replicas.begin(sharding_.of(segment).replicas, sum(i), segment.name, Queue::compute);
  }
  replicas.finish();
}

GradientNorms GradientSums::norms() const {
  std::vector<std::size_t> params;  // one entry per view in own_parts
  std::vector<ConstView> own_parts;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    if (!sums_[i].of_use[0] || !sharding_.reports(segment)) continue;
    const auto mine = sharding_.own(segment);
    for (const auto& slot : segment.slots) {
      const auto r = intersection(mine, {slot.begin, slot.begin + slot.count});
      if (r.count() == 0) continue;
      params.push_back(slot.param.index());
      own_parts.push_back(sum(i).slice(r.begin - mine.begin, {r.count()}).view());
    }
  }
  const std::size_t each = exact_chunk_ > 0 ? fixed::limbs : 1;
  GradientNorms norms{std::vector<double>(spec_.params.size() * each), {}, leaves_};
  Tensor of_views;
  if (!params.empty()) {
    of_views = Tensor::empty(backend_, {static_cast<std::int64_t>(params.size() * each)},
                             DType::f64, MemoryKind::transient);
    backend_.put(Queue::compute, kernel::SumSquares{.out_N = of_views.view(), .x = own_parts});
  }
  sharding_.stage.gather.synchronize();
  const TaskScope task(Task::device);  // the download also waits for earlier work on the device
  std::vector<double> sums(params.size() * each);
  if (of_views)
    backend_.download(Queue::compute, std::as_writable_bytes(std::span(sums)), of_views.view());
  for (std::size_t i = 0; i < params.size(); ++i)
    std::copy_n(sums.data() + i * each, each, norms.squares.data() + params[i] * each);
  if (largest_) {
    std::vector<float> largest(spec_.params.size());
    backend_.download(Queue::compute, std::as_writable_bytes(std::span(largest)), largest_.view());
    norms.largest.assign(largest.begin(), largest.end());
  }
  return norms;
}

GradientNorms GradientSums::finish() {
  complete_own_uses();
  add_tied_uses();
  sum_replicas();
  share_tied_sums();
  return norms();
}

}  // namespace trireme
