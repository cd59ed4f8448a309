#include "lib/shard/shards.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/array_names.hpp"
#include "lib/shard/initial.hpp"

namespace trireme {

Shards::Shards(Backend& b, const ModelSpec& spec, const Layout& layout, const Sharding& sharding,
               DType compute, std::vector<std::string> arrays)
    : backend_(b),
      spec_(spec),
      layout_(layout),
      sharding_(sharding),
      compute_(compute),
      names_(std::move(arrays)),
      shards_(layout.segments.size()),
      counts_(spec.params.size(), 0) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    auto& s = shards_[i];
    const auto n = sharding_.own(layout_.segments[i]).count();
    s.master = zeros(n, Kind::weights);
    s.copy = s.master;
    if (type_of(layout_.segments[i]) == master()) continue;
    s.copy = Tensor::empty(b, {n}, compute, Kind::weights);
    b.put(Queue::compute, kernel::Fill{.dst = s.copy.view(), .value = 0});
  }
}

Tensor Shards::zeros(std::int64_t n, Kind kind) const {
  Tensor t = Tensor::empty(backend_, {n}, master(), kind);
  backend_.put(Queue::compute, kernel::Fill{.dst = t.view(), .value = 0});
  return t;
}

Range Shards::own(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  if (!where) return {};
  const auto& slot = where->slot;
  const auto r = intersection(sharding_.own(layout_.segments[where->segment]),
                              {slot.begin, slot.begin + slot.count});
  if (r.count() == 0) return {};
  return {r.begin - slot.begin, r.end - slot.begin};
}

ConstView Shards::weight(ParamId p) const {
  const auto& where = *layout_.of_param[p.index()];
  return copy(where.segment).slice(where.slot.begin, spec_.params[p.index()].shape).view();
}

View Shards::view_of(ParamId p, std::string_view array, std::int64_t first,
                     std::size_t bytes) const {
  const auto& name = spec_.params[p.index()].name;
  const auto& where = layout_.of_param[p.index()];
  const auto n = static_cast<std::int64_t>(bytes / bytes_of(master()));
  const auto mine = own(p);
  require(where && first >= mine.begin && first + n <= mine.end,
          "elements {} to {} of {} are not on this rank, which holds {} to {}", first, first + n,
          name, mine.begin, mine.end);
  const auto& shard = shards_[where->segment];
  const Tensor* flat = &shard.master;
  if (array != weights_array) {
    const auto k = static_cast<std::size_t>(std::ranges::find(names_, array) - names_.begin());
    require(k < names_.size(), "the optimizer keeps no {}; it keeps: {}", array,
            fmt::join(names_, ", "));
    require(k < shard.arrays.size(), "{} has no {} here: it is frozen", name, array);
    flat = &shard.arrays[k];
  }
  const auto begin =
      where->slot.begin + first - sharding_.own(layout_.segments[where->segment]).begin;
  return flat->slice(begin, {n}).view();
}

void Shards::read(ParamId p, std::string_view array, std::int64_t first,
                  std::span<std::byte> bytes) const {
  backend_.download(Queue::compute, bytes, view_of(p, array, first, bytes.size()));
}

void Shards::write(ParamId p, std::string_view array, std::int64_t first,
                   std::span<const std::byte> bytes) {
  backend_.upload(Queue::compute, view_of(p, array, first, bytes.size()), bytes);
}

void Shards::add(ParamId p, std::span<const double> change) {
  const auto mine = own(p);
  if (mine.count() == 0) return;
  expect(type_of(layout_.segments[layout_.of_param[p.index()]->segment]) == master(),
         "no copy of what is added to is in another type");
  const auto own_change =
      change.subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.count()));
  const std::vector<float> narrow(own_change.begin(), own_change.end());
  const bool doubles = master() == DType::f64;
  const auto bytes = doubles ? std::as_bytes(own_change) : std::as_bytes(std::span(narrow));
  const Tensor added = Tensor::empty(backend_, {mine.count()}, master(), Kind::transient);
  backend_.upload(Queue::compute, added.view(), bytes);
  backend_.put(Queue::compute,
               kernel::Copy{.dst = view_of(p, weights_array, mine.begin, bytes.size()),
                            .src = added.view(),
                            .how = Accumulate::add});
}

void Shards::refresh() {
  for (auto& s : shards_)
    if (s.copy.dtype() != s.master.dtype())
      backend_.put(Queue::compute, kernel::Copy{.dst = s.copy.view(), .src = s.master.view()});
}

void Shards::initialize(std::uint64_t seed, int threads) {
  for (std::size_t i = 0; i < spec_.params.size(); ++i) {
    const auto p = ParamId::at(i);
    const auto& spec = spec_.params[i];
    const auto mine = own(p);
    if (mine.count() == 0) continue;
    const auto bytes = static_cast<std::size_t>(mine.count()) * bytes_of(master());
    const View v = view_of(p, weights_array, mine.begin, bytes);
    if (spec.init_std == 0)
      backend_.put(Queue::compute, kernel::Fill{.dst = v, .value = spec.init_mean});
    else
      upload_normal(backend_, v, mine.begin, hash64(seed, spec.name), spec.init_mean, spec.init_std,
                    threads);
  }
  std::ranges::fill(counts_, 0);
  for (auto& s : shards_)
    for (const auto& a : s.arrays)
      backend_.put(Queue::compute, kernel::Fill{.dst = a.view(), .value = 0});
  refresh();
}

bool Shards::has_arrays(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && !shards_[where->segment].arrays.empty();
}

void Shards::make_arrays(std::size_t segment) {
  auto& s = shards_[segment];
  if (!s.arrays.empty() || names_.empty()) return;
  const auto n = sharding_.own(layout_.segments[segment]).count();
  for (std::size_t k = 0; k < names_.size(); ++k) s.arrays.push_back(zeros(n, Kind::optimizer));
}

void Shards::drop_arrays(std::size_t segment) {
  shards_[segment].arrays.clear();
  for (const auto& slot : layout_.segments[segment].slots) counts_[slot.param.index()] = 0;
}

void Shards::set_count(ParamId p, std::int64_t n) {
  if (holds(p)) counts_[p.index()] = n;
}

ShardViews Shards::views(std::size_t segment, Range r) const {
  const auto& s = shards_[segment];
  const auto begin = r.begin - sharding_.own(layout_.segments[segment]).begin;
  const auto cut = [&](const Tensor& t) { return t.slice(begin, {r.count()}).view(); };
  ShardViews v{cut(s.master), s.copy.dtype() == s.master.dtype() ? View{} : cut(s.copy), {}};
  for (const auto& a : s.arrays) v.arrays.push_back(cut(a));
  return v;
}

}  // namespace trireme
