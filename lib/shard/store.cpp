#include "lib/shard/store.hpp"

#include <algorithm>
#include <utility>

#include "lib/shard/initial.hpp"

namespace trireme {

Store::Store(Backend& b, const ModelSpec& spec, Layout layout, DType compute, Upkeep upkeep,
             Sharding sharding, std::vector<std::uint8_t> trainable)
    : backend_(b),
      spec_(spec),
      layout_(std::move(layout)),
      compute_(compute),
      upkeep_(upkeep),
      sharding_(std::move(sharding)),
      shards_(layout_.segments.size()),
      trainable_(spec.params.size(), 0),
      wanted_(std::move(trainable)),
      thaw_(spec.params.size(), ThawMoments::fresh) {
  if (wanted_.empty()) wanted_.assign(spec.params.size(), 1);
  if (upkeep == Upkeep::forward) wanted_.assign(spec.params.size(), 0);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    auto& s = shards_[i];
    const auto n = own(layout_.segments[i]).count();
    s.master = zeros(n, Kind::weights);
    s.copy = s.master;
    if (compute != master()) {
      s.copy = Tensor::empty(b, {n}, compute, Kind::weights);
      b.put(Queue::compute, kernel::Fill{.dst = s.copy.view(), .value = 0});
    }
  }
  settle_trainable();
}

Tensor Store::zeros(std::int64_t n, Kind kind) const {
  Tensor t = Tensor::empty(backend_, {n}, master(), kind);
  backend_.put(Queue::compute, kernel::Fill{.dst = t.view(), .value = 0});
  return t;
}

// Do two parts borrow this segment's unit?
bool Store::is_tied(const Segment& s) const {
  return spec_.config.tied && s.unit == spec_.table_unit;
}

Range Store::own(const Segment& s) const {
  return shard_range(s, sharding_.gather.rank(), sharding_.gather.size());
}

Range Store::own(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  if (!where) return {};
  const auto& slot = where->slot;
  const auto r =
      intersection(own(layout_.segments[where->segment]), {slot.begin, slot.begin + slot.count});
  if (r.count() == 0) return {};
  return {r.begin - slot.begin, r.end - slot.begin};
}

bool Store::speaks_for(const Segment& s) const {
  return sharding_.replicas.rank() == 0 && sums_here(s);
}

bool Store::speaks_for(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && speaks_for(layout_.segments[where->segment]);
}

static View slot_view(const Tensor& flat, const Slot& slot, const Shape& shape) {
  return flat.slice(slot.begin, shape).view();
}

ConstView Store::weight(ParamId p) const {
  const auto& where = *layout_.of_param[p.index()];
  return slot_view(shards_[where.segment].copy, where.slot, spec_.params[p.index()].shape);
}

const Tensor& Store::state(const Shard& s, State what) const {
  return what == State::weight ? s.master : what == State::moment1 ? s.moment1 : s.moment2;
}

View Store::piece(ParamId p, State what, std::int64_t first, std::size_t bytes) const {
  const auto& where = layout_.of_param[p.index()];
  const auto n = static_cast<std::int64_t>(bytes / bytes_of(master()));
  const auto mine = own(p);
  require(where && first >= mine.begin && first + n <= mine.end,
          "elements {} to {} of {} are not on this rank, which holds {} to {}", first, first + n,
          spec_.params[p.index()].name, mine.begin, mine.end);
  const Tensor& flat = state(shards_[where->segment], what);
  require(bool(flat), "{} has no optimizer state here: it is frozen", spec_.params[p.index()].name);
  const auto begin = where->slot.begin + first - own(layout_.segments[where->segment]).begin;
  return flat.slice(begin, {n}).view();
}

void Store::read(ParamId p, State what, std::int64_t first, std::span<std::byte> bytes) const {
  backend_.download(Queue::compute, bytes, piece(p, what, first, bytes.size()));
}

void Store::write(ParamId p, State what, std::int64_t first, std::span<const std::byte> bytes) {
  backend_.upload(Queue::compute, piece(p, what, first, bytes.size()), bytes);
}

void Store::refresh() {
  if (compute_ == master()) return;
  for (auto& s : shards_)
    backend_.put(Queue::compute, kernel::Copy{.dst = s.copy.view(), .src = s.master.view()});
}

void Store::initialize(std::uint64_t seed, int threads) {
  for (std::size_t i = 0; i < spec_.params.size(); ++i) {
    const ParamId p{static_cast<std::int32_t>(i)};
    const auto& spec = spec_.params[i];
    const auto mine = own(p);
    if (mine.count() == 0) continue;
    const auto bytes = static_cast<std::size_t>(mine.count()) * bytes_of(master());
    const View v = piece(p, State::weight, mine.begin, bytes);
    if (spec.init_std == 0)
      backend_.put(Queue::compute, kernel::Fill{.dst = v, .value = spec.init_mean});
    else
      upload_normal(backend_, v, mine.begin, hash64(seed, spec.name), spec.init_mean, spec.init_std,
                    threads);
  }
  for (auto& s : shards_) {
    s.count = 0;
    if (!s.moment1) continue;
    backend_.put(Queue::compute, kernel::Fill{.dst = s.moment1.view(), .value = 0});
    backend_.put(Queue::compute, kernel::Fill{.dst = s.moment2.view(), .value = 0});
  }
  refresh();
}

bool Store::has_moments(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && shards_[where->segment].moment1;
}

void Store::make_moments(ParamId p) {
  const auto& where = layout_.of_param[p.index()];
  if (!where || !keeps_moments()) return;
  auto& s = shards_[where->segment];
  if (s.moment1) return;
  const auto n = own(layout_.segments[where->segment]).count();
  s.moment1 = zeros(n, Kind::optimizer);
  s.moment2 = zeros(n, Kind::optimizer);
}

std::int64_t Store::count(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where ? shards_[where->segment].count : 0;
}

void Store::set_count(ParamId p, std::int64_t n) {
  if (const auto& where = layout_.of_param[p.index()]) shards_[where->segment].count = n;
}

// Each segment's decayed and undecayed range, as far as it is here: (shard, cut, decay).
template <class Update>
void Store::each_range(double decay, const Update& update) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    auto& shard = shards_[i];
    if (!shard.trainable) continue;
    ++shard.count;
    const auto mine = own(segment);
    const auto run = [&](Range wanted, double range_decay) {
      const auto r = intersection(wanted, mine);
      if (r.count() == 0) return;
      const auto cut = [&](const Tensor& t) {
        return t.slice(r.begin - mine.begin, {r.count()}).view();
      };
      update(shard, cut, range_decay);
    };
    run({0, segment.decayed}, decay);
    run({segment.decayed, segment.elements}, 0);
  }
  pending_ = false;
}

void Store::update(const AdamWFactors& a) {
  kernel::AdamW step;
  each_range(a.decay, [&](Shard& s, const auto& cut, double decay) {
    AdamWFactors here = a;
    here.decay = decay;
    here.count = s.count;
    step.shards.push_back({.master_N = cut(s.master),
                           .m_N = cut(s.moment1),
                           .v_N = cut(s.moment2),
                           .copy_N = compute_ == master() ? View{} : cut(s.copy),
                           .grad_N = cut(s.gradient[0]->flat),
                           .factors = here});
  });
  backend_.put(Queue::compute, step);
}

void Store::update(const SgdFactors& a) {
  kernel::Sgd step;
  each_range(a.decay, [&](Shard& s, const auto& cut, double decay) {
    SgdFactors here = a;
    here.decay = decay;
    step.shards.push_back({.master_N = cut(s.master),
                           .copy_N = compute_ == master() ? View{} : cut(s.copy),
                           .grad_N = cut(s.gradient[0]->flat),
                           .factors = here});
  });
  backend_.put(Queue::compute, step);
}

}  // namespace trireme
