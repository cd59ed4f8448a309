#include "lib/shard/shards.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>
#include <utility>

#include "kernels/nf4.hpp"
#include "lib/base/array_names.hpp"
#include "lib/shard/initial.hpp"

namespace trireme {

Shards::Shards(Backend& b, const ModelSpec& spec, const Layout& layout, const Sharding& sharding,
               DType compute, const std::optional<OptimizerRules>& rules)
    : backend_(b),
      spec_(spec),
      layout_(layout),
      sharding_(sharding),
      compute_(compute),
      names_(rules ? all_arrays(*rules) : std::vector<std::string>()),
      heads_(rules && rules->matrices ? rules->matrices->heads : HeadMatrices::together),
      state_(layout.segments.size()),
      shards_(layout.segments.size()),
      counts_(spec.params.size(), 0) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    auto& s = shards_[i];
    const auto& segment = layout_.segments[i];
    if (rules) state_[i] = state_arrays(*rules, spec, segment, sharding_.of(segment).gather.size());
    const auto n = sharding_.own(segment).count();
    const bool keeps_master = segment.learns_from != LearnsFrom::nothing;
    if (keeps_master) s.master = zeros(n, master(), MemoryKind::weights);
    const auto kept = this->kept(segment);
    s.copy = keeps_master && type_of(segment) == master()
                 ? s.master
                 : zeros(kept.count(n), kept.type(), MemoryKind::weights);
  }
}

Tensor Shards::zeros(std::int64_t n, DType type, MemoryKind kind) const {
  Tensor t = Tensor::empty(backend_, {n}, type, kind);
  backend_.put(Queue::compute, kernel::Fill{.dst = t.view(), .value = 0});
  return t;
}

Shards::Place Shards::place(ParamId p, std::string_view array) const {
  const auto& where = *layout_.of_param[p.index()];
  const auto& segment = layout_.segments[where.segment];
  const auto& shard = shards_[where.segment];
  const auto& state = state_[where.segment];
  const auto nth = [](const std::vector<Tensor>& all, std::size_t k) {
    return k < all.size() ? &all[k] : nullptr;
  };
  if (array == weights_array)
    return {shard.master ? &shard.master : &shard.copy, where.slot, sharding_.own(segment)};
  for (std::size_t k = 0; k < state.squares.size(); ++k)
    if (const auto& square = state.squares[k]; square.array.name == array && square.slot_of(p))
      return {nth(shard.squares, k), *square.slot_of(p), sharding_.own(segment, square.elements)};
  for (std::size_t k = 0; k < state.elementwise.size(); ++k)
    if (const auto& a = state.elementwise[k]; a.name == array && a.has(where.slot))
      return {nth(shard.arrays, k), where.slot, intersection(sharding_.own(segment), a.elements)};
  fail("the optimizer has no array {} of {}; its arrays: {}", array, spec_.params[p.index()].name,
       fmt::join(arrays(p), ", "));
}

Range Shards::own(ParamId p, std::string_view array) const {
  if (!holds(p)) return {};
  const auto at = place(p, array);
  const auto r = intersection(at.mine, {at.slot.begin, at.slot.begin + at.slot.count});
  if (r.count() == 0) return {};
  return {r.begin - at.slot.begin, r.end - at.slot.begin};
}

Shape Shards::shape(ParamId p, std::string_view array) const {
  const auto& where = *layout_.of_param[p.index()];
  for (const auto& square : state_[where.segment].squares)
    if (square.array.name == array && square.slot_of(p))
      return shape_of(square.array, matrices_of(spec_, p, heads_));
  return spec_.params[p.index()].shape;
}

std::vector<std::string> Shards::arrays(ParamId p) const {
  std::vector<std::string> all;
  const auto& where = *layout_.of_param[p.index()];
  const auto& state = state_[where.segment];
  std::set<std::string_view> present;
  for (const auto& a : state.elementwise)
    if (a.has(where.slot)) present.insert(a.name);
  for (const auto& square : state.squares)
    if (square.slot_of(p)) present.insert(square.array.name);
  for (const auto& name : names_)
    if (present.contains(name)) all.push_back(name);
  return all;
}

ConstView Shards::weight(ParamId p) const {
  const auto& where = *layout_.of_param[p.index()];
  return copy(where.segment).slice(where.slot.begin, spec_.params[p.index()].shape).view();
}

View Shards::view_of(ParamId p, std::string_view array, std::int64_t first, std::int64_t n) const {
  const auto& name = spec_.params[p.index()].name;
  const auto mine = own(p, array);
  require(holds(p) && first >= mine.begin && first + n <= mine.end,
          "elements {} to {} of {}/{} are not on this rank, which holds {} to {}", first, first + n,
          array, name, mine.begin, mine.end);
  const auto at = place(p, array);
  require(at.flat, "{} has no {} on this rank, because the parameter is frozen", name, array);
  return at.flat->slice(at.slot.begin + first - at.mine.begin, {n}).view();
}

bool Shards::in_records(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && kept(layout_.segments[where->segment]).in_records();
}

View Shards::records_of(ParamId p, std::int64_t first, std::int64_t n) const {
  const auto& where = layout_.of_param[p.index()];
  const auto mine = own(p);
  const auto& name = spec_.params[p.index()].name;
  require(where && first >= mine.begin && first + n <= mine.end,
          "elements {} to {} of {} are not on this rank, which holds {} to {}", first, first + n,
          name, mine.begin, mine.end);
  expect(first % nf4::weights == 0 && (n % nf4::weights == 0 || first + n == mine.end),
         "records are read and written whole");
  const auto& segment = layout_.segments[where->segment];
  const auto kept = this->kept(segment);
  const auto begin = where->slot.begin + first - sharding_.own(segment).begin;
  return copy(where->segment).slice(kept.count(begin), {kept.count(n)}).view();
}

template <class From, class To>
static void convert(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < to.size() / sizeof(To); ++i) {
    From x{};
    std::memcpy(&x, from.data() + i * sizeof x, sizeof x);
    // Convert bf16 through f32.
    using Middle = std::conditional_t<std::is_same_v<To, double>, double, float>;
    Middle middle{};
    if constexpr (std::is_same_v<From, bf16>)
      middle = static_cast<float>(x);
    else
      middle = static_cast<Middle>(x);
    const auto y = static_cast<To>(middle);
    std::memcpy(to.data() + i * sizeof y, &y, sizeof y);
  }
}

// Converts on the host, so that no device memory is used that a plan would not include.
static void convert(std::span<const std::byte> from, DType type, std::span<std::byte> to,
                    DType wanted) {
  const auto with = [&]<class From>(From) {
    if (wanted == DType::f64) return convert<From, double>(from, to);
    if (wanted == DType::f32) return convert<From, float>(from, to);
    convert<From, bf16>(from, to);
  };
  if (type == DType::f64) return with(double{});
  if (type == DType::f32) return with(float{});
  with(bf16{});
}

void Shards::read(ParamId p, std::string_view array, std::int64_t first,
                  std::span<std::byte> bytes) const {
  const auto n = static_cast<std::int64_t>(bytes.size() / bytes_of(master()));
  if (in_records(p) && n > 0) {
    const auto begin = first / nf4::weights * nf4::weights,
               end = std::min((first + n + nf4::weights - 1) / nf4::weights * nf4::weights,
                              own(p).end);
    const View records = records_of(p, begin, end - begin);
    const Tensor all = Tensor::empty(backend_, {records.count() / nf4::record_words * nf4::weights},
                                     master(), MemoryKind::transient);
    put_widened(backend_, all.view(), records);
    backend_.download(Queue::compute, bytes, all.slice(first - begin, {n}).view());
    return;
  }
  const View own = view_of(p, array, first, n);
  if (own.dtype == master()) return backend_.download(Queue::compute, bytes, own);
  std::vector<std::byte> narrow(own.span_bytes());
  backend_.download(Queue::compute, narrow, own);
  convert(narrow, own.dtype, bytes, master());
}

void Shards::write(ParamId p, std::string_view array, std::int64_t first,
                   std::span<const std::byte> bytes) {
  const auto n = static_cast<std::int64_t>(bytes.size() / bytes_of(master()));
  if (in_records(p)) {
    std::vector<float> x(static_cast<std::size_t>(n));
    convert(bytes, master(), std::as_writable_bytes(std::span(x)), DType::f32);
    const auto words = trireme::records_of(x, spec_.params[p.index()].name, first);
    backend_.upload(Queue::compute, records_of(p, first, n), std::as_bytes(std::span(words)));
    return;
  }
  const View own = view_of(p, array, first, n);
  if (own.dtype == master()) return backend_.upload(Queue::compute, own, bytes);
  std::vector<std::byte> narrow(own.span_bytes());
  convert(bytes, master(), narrow, own.dtype);
  backend_.upload(Queue::compute, own, narrow);
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
  const Tensor added = Tensor::empty(backend_, {mine.count()}, master(), MemoryKind::transient);
  backend_.upload(Queue::compute, added.view(), bytes);
  backend_.put(Queue::compute,
               kernel::Copy{.dst = view_of(p, weights_array, mine.begin, mine.count()),
                            .src = added.view(),
                            .how = Accumulate::add});
}

void Shards::refresh() {
  for (auto& s : shards_)
    if (s.master && s.copy.dtype() != s.master.dtype())
      backend_.put(Queue::compute, kernel::Copy{.dst = s.copy.view(), .src = s.master.view()});
}

// Initializes weights whose storage type differs from the master type, in whole records.
template <class Master>
void Shards::initialize_pieces(ParamId p, std::uint64_t seed, int threads) {
  constexpr std::int64_t most = nf4::weights << 6;
  const auto& spec = spec_.params[p.index()];
  const auto mine = own(p);
  const auto key = hash64(seed, spec.name);
  std::vector<Master> x;
  for (auto begin = mine.begin; begin < mine.end; begin += most) {
    x.resize(static_cast<std::size_t>(std::min(most, mine.end - begin)));
    fill_normal(std::span(x), begin, key, spec.init_mean, spec.init_std, threads);
    write(p, weights_array, begin, std::as_bytes(std::span(x)));
  }
}

void Shards::initialize_weights(ParamId p, std::uint64_t seed, int threads) {
  const auto& spec = spec_.params[p.index()];
  const auto mine = own(p);
  if (mine.count() == 0) return;
  const auto pieces = [&] {
    return master() == DType::f64 ? initialize_pieces<double>(p, seed, threads)
                                  : initialize_pieces<float>(p, seed, threads);
  };
  if (in_records(p)) return pieces();
  const View weights = view_of(p, weights_array, mine.begin, mine.count());
  if (spec.init_std == 0) {
    backend_.put(Queue::compute, kernel::Fill{.dst = weights, .value = spec.init_mean});
    return;
  }
  if (weights.dtype != master()) return pieces();
  upload_normal(backend_, weights, mine.begin, hash64(seed, spec.name), spec.init_mean,
                spec.init_std, threads);
}

void Shards::initialize(std::uint64_t seed, int threads) {
  for (std::size_t i = 0; i < spec_.params.size(); ++i)
    if (!is_of_adapter(spec_.params[i])) initialize_weights(ParamId::at(i), seed, threads);
  initialize_adapters(seed, threads);
}

void Shards::initialize_adapters(std::uint64_t seed, int threads) {
  for (std::size_t i = 0; i < spec_.params.size(); ++i)
    if (is_of_adapter(spec_.params[i])) initialize_weights(ParamId::at(i), seed, threads);
  std::ranges::fill(counts_, 0);
  for (auto& s : shards_)
    for (const auto* const arrays : {&s.arrays, &s.squares})
      for (const auto& a : *arrays)
        backend_.put(Queue::compute, kernel::Fill{.dst = a.view(), .value = 0});
  start_averages();
  refresh();
}

bool Shards::averages() const {
  return !names_.empty() && names_.back() == average_array;
}

void Shards::start_average(Shard& s) {
  backend_.put(Queue::compute, kernel::Copy{.dst = s.arrays.back().view(), .src = s.master.view()});
}

void Shards::start_averages() {
  if (!averages()) return;
  for (auto& s : shards_)
    if (!s.arrays.empty()) start_average(s);
}

void Shards::swap_averages() {
  if (!averages()) return;
  for (auto& s : shards_) {
    if (s.arrays.empty()) continue;
    const bool shared = s.copy.dtype() == s.master.dtype();
    std::swap(s.master, s.arrays.back());
    if (shared) s.copy = s.master;
  }
  refresh();
}

bool Shards::has_arrays(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && !shards_[where->segment].arrays.empty();
}

void Shards::make_arrays(std::size_t segment) {
  auto& s = shards_[segment];
  if (!s.arrays.empty()) return;
  const auto& where = layout_.segments[segment];
  for (const auto& a : state_[segment].elementwise)
    s.arrays.push_back(
        zeros(a.most_held(sharding_.own(where).count()), master(), MemoryKind::optimizer));
  for (const auto& square : state_[segment].squares)
    s.squares.push_back(
        zeros(sharding_.own(where, square.elements).count(), master(), MemoryKind::optimizer));
  if (s.arrays.empty()) return;
  if (averages()) start_average(s);
}

void Shards::drop_arrays(std::size_t segment) {
  shards_[segment].arrays.clear();
  shards_[segment].squares.clear();
  for (const auto& slot : layout_.segments[segment].slots) counts_[slot.param.index()] = 0;
}

void Shards::set_count(ParamId p, std::int64_t n) {
  if (holds(p)) counts_[p.index()] = n;
}

ShardViews Shards::views(std::size_t segment, Range r) const {
  const auto& s = shards_[segment];
  const auto own = sharding_.own(layout_.segments[segment]);
  const auto begin = r.begin - own.begin;
  const auto cut = [&](const Tensor& t) { return t.slice(begin, {r.count()}).view(); };
  const auto kept = this->kept(layout_.segments[segment]);
  const auto cut_kept = [&] {
    return s.copy.slice(kept.count(begin), {kept.count(r.count())}).view();
  };
  const bool alone = s.master && s.copy.dtype() == s.master.dtype();
  ShardViews v{s.master ? cut(s.master) : View{}, alone ? View{} : cut_kept(), {}, {}};
  for (std::size_t k = 0; k < s.arrays.size(); ++k) {
    const auto& [name, elements] = state_[segment].elementwise[k];
    if (!contains(elements, r)) continue;
    v.arrays.push_back(
        s.arrays[k].slice(r.begin - intersection(own, elements).begin, {r.count()}).view());
    v.names.push_back(name);
  }
  return v;
}

}  // namespace trireme
