#include "lib/shard/store.hpp"

#include <algorithm>

#include "lib/shard/initial.hpp"

namespace trireme {

// Does any part borrow this unit a second time?
static bool is_tied(const ModelSpec& s, UnitId u) {
  return s.config.tied && u == s.table_unit;
}

Store::Store(Backend& b, const ModelSpec& spec, Layout layout, DType compute, Upkeep upkeep)
    : backend_(b),
      spec_(spec),
      layout_(std::move(layout)),
      compute_(compute),
      upkeep_(upkeep),
      counts_(layout_.segments.size(), 0),
      trainable_(spec.params.size(), upkeep != Upkeep::forward) {
  const auto zeros = [&](std::int64_t n, Kind kind) {
    Tensor t = Tensor::empty(b, {n}, master(), kind);
    b.fill(Queue::compute, t.view(), 0);
    return t;
  };
  for (const auto& segment : layout_.segments) {
    const auto n = segment.elements;
    Shard s;
    s.master = zeros(n, Kind::weights);
    s.copy = s.master;
    if (compute != master()) {
      s.copy = Tensor::empty(b, {n}, compute, Kind::weights);
      b.fill(Queue::compute, s.copy.view(), 0);
    }
    if (has_moments()) {
      s.moment1 = zeros(n, Kind::optimizer);
      s.moment2 = zeros(n, Kind::optimizer);
    }
    const std::size_t uses = upkeep == Upkeep::forward ? 0 : is_tied(spec_, segment.unit) ? 2 : 1;
    for (std::size_t use = 0; use < uses; ++use) {
      s.gradient[use] = zeros(n, Kind::gradients);
      s.written[use].assign(segment.slots.size(), 0);
    }
    shards_.push_back(std::move(s));
  }
}

static View slot_view(const Tensor& flat, const Slot& slot, const Shape& shape) {
  return flat.slice(slot.begin, shape).view();
}

ConstView Store::weight(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return slot_view(shards_[where.segment].copy, where.slot, spec_.params[p.index()].shape);
}

View Store::state(ParamId p, State what) const {
  const auto& where = layout_.of_param[p.index()];
  const auto& s = shards_[where.segment];
  const Tensor& flat = what == State::weight    ? s.master
                       : what == State::moment1 ? s.moment1
                                                : s.moment2;
  return slot_view(flat, where.slot, spec_.params[p.index()].shape);
}

View Store::piece(ParamId p, State what, std::int64_t first, std::size_t bytes) const {
  const View whole = state(p, what);
  return whole.reshaped({whole.count()})
      .slice(0, first, static_cast<std::int64_t>(bytes / bytes_of(whole.dtype)));
}

void Store::read(ParamId p, State what, std::int64_t first, std::span<std::byte> bytes) const {
  backend_.download(Queue::compute, bytes, piece(p, what, first, bytes.size()));
}

void Store::write(ParamId p, State what, std::int64_t first, std::span<const std::byte> bytes) {
  backend_.upload(Queue::compute, piece(p, what, first, bytes.size()), bytes);
}

void Store::refresh() {
  if (compute_ == master()) return;
  for (auto& s : shards_) backend_.copy(Queue::compute, s.copy.view(), s.master.view());
}

void Store::initialize(std::uint64_t seed, int threads) {
  for (std::size_t i = 0; i < spec_.params.size(); ++i) {
    const ParamId p{static_cast<std::int32_t>(i)};
    const auto& spec = spec_.params[i];
    if (spec.init_std == 0)
      backend_.fill(Queue::compute, state(p, State::weight), spec.init_mean);
    else
      upload_normal(backend_, state(p, State::weight), hash64(seed, spec.name), spec.init_mean,
                    spec.init_std, threads);
  }
  for (auto& s : shards_)
    if (has_moments()) {
      backend_.fill(Queue::compute, s.moment1.view(), 0);
      backend_.fill(Queue::compute, s.moment2.view(), 0);
    }
  std::ranges::fill(counts_, 0);
  refresh();
}

std::vector<double> Store::finish_gradients() {
  auto& b = backend_;
  const auto params = static_cast<std::int64_t>(spec_.params.size());
  const Tensor squares = Tensor::empty(b, {params}, DType::f64, Kind::transient);
  b.fill(Queue::compute, squares.view(), 0);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    auto& s = shards_[i];
    for (std::size_t k = 0; k < layout_.segments[i].slots.size(); ++k) {
      const auto& slot = layout_.segments[i].slots[k];
      if (!trainable_[slot.param.index()]) continue;
      const auto gradient = [&](std::size_t use) {
        return slot_view(s.gradient[use], slot, {slot.count});
      };
      if (!s.written[0][k]) b.fill(Queue::compute, gradient(0), 0);
      if (s.gradient[1] && s.written[1][k])
        b.copy(Queue::compute, gradient(0), gradient(1), Accumulate::add);
      b.sum_squares(Queue::compute, squares.view().slice(0, slot.param.value, 1), gradient(0));
    }
  }
  std::vector<double> result(spec_.params.size());
  b.download(Queue::compute, std::as_writable_bytes(std::span(result)), squares.view());
  return result;
}

// Each segment's decayed and undecayed range, as (shard, range, decay).
template <class Update>
void Store::each_range(double decay, const Update& update) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& segment = layout_.segments[i];
    if (!trainable_[segment.slots.front().param.index()]) continue;
    ++counts_[i];
    const auto run = [&](std::int64_t begin, std::int64_t end, double range_decay) {
      if (end <= begin) return;
      const auto cut = [&](const Tensor& t) {
        return t ? t.slice(begin, {end - begin}).view() : View{};
      };
      update(shards_[i], cut, range_decay, counts_[i]);
    };
    run(0, segment.decayed, decay);
    run(segment.decayed, segment.elements, 0);
  }
}

void Store::update(const AdamW& a) {
  each_range(a.decay, [&](Shard& s, const auto& cut, double decay, std::int64_t count) {
    AdamW here = a;
    here.decay = decay;
    here.count = count;
    const View copy = compute_ == master() ? View{} : cut(s.copy);
    backend_.adamw(Queue::compute, cut(s.master), cut(s.moment1), cut(s.moment2), copy,
                   cut(s.gradient[0]), here);
  });
}

void Store::update(const Sgd& a) {
  each_range(a.decay, [&](Shard& s, const auto& cut, double decay, std::int64_t) {
    Sgd here = a;
    here.decay = decay;
    const View copy = compute_ == master() ? View{} : cut(s.copy);
    backend_.sgd(Queue::compute, cut(s.master), copy, cut(s.gradient[0]), here);
  });
}

static const Borrow& borrowed(const ModelSpec& spec, std::span<const Borrow> units, ParamId p) {
  const auto it = std::ranges::find(units, spec.params[p.index()].unit, &Borrow::unit);
  if (it == units.end())
    fail("parameter {} was not borrowed here: its unit is {}", spec.params[p.index()].name,
         spec.units[spec.params[p.index()].unit.index()]);
  return *it;
}

ConstView Lease::operator[](ParamId p) const {
  borrowed(store_.spec(), units_, p);
  return store_.weight(p);
}

void UnitGradients::add(std::span<const ParamId> params, std::int64_t rows, const Fill& fill) {
  std::vector<View> dst;
  bool fresh = false;
  for (const ParamId p : params) {
    if (!store_.trainable()[p.index()]) {
      dst.emplace_back();
      continue;
    }
    const auto use = static_cast<std::size_t>(borrowed(store_.spec(), units_, p).use);
    const auto& where = store_.layout_.of_param[p.index()];
    auto& shard = store_.shards_[where.segment];
    const auto& slots = store_.layout_.segments[where.segment].slots;
    const auto k =
        static_cast<std::size_t>(std::ranges::find(slots, p, &Slot::param) - slots.begin());
    fresh = !shard.written[use][k];
    shard.written[use][k] = 1;
    dst.push_back(
        slot_view(shard.gradient[use], where.slot, store_.spec().params[p.index()].shape));
  }
  fill({0, rows}, dst, fresh ? Accumulate::overwrite : Accumulate::add);
}

Session::Session(Store& s, Purpose purpose) : store_(s) {
  require(!s.open_, "the model's state is in use by another session: close that first");
  require(purpose == Purpose::forward || s.upkeep_ != Upkeep::forward,
          "the model was opened without gradients: it can be evaluated, not trained");
  s.open_ = true;
  if (purpose == Purpose::train)
    for (auto& shard : s.shards_)
      for (auto& written : shard.written) std::ranges::fill(written, 0);
}

Session::~Session() {
  store_.open_ = false;
}

}  // namespace trireme
