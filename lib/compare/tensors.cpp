#include "lib/compare/tensors.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"
#include "lib/base/fixed.hpp"

namespace trireme {

std::size_t count_differing(const TensorDifferences& all) {
  return static_cast<std::size_t>(std::ranges::count_if(all, &TensorDifference::differs));
}

const TensorDifference* first_differing(const TensorDifferences& all) {
  const auto first = std::ranges::find_if(all, &TensorDifference::differs);
  return first == all.end() ? nullptr : &*first;
}

void require_comparable(const ModelSpec& spec, const CheckpointReader& a,
                        const CheckpointReader& b) {
  const auto model = saved_params(spec);
  a.require_model(model);
  const auto differences = b.model_differences(model);
  require(differences.empty(),
          "the models differ, so their tensors cannot be compared: {} differs from {}: {}",
          b.directory().string(), a.directory().string(), differences);
  for (std::size_t i = 0; i < a.params().size(); ++i)
    require(a.params()[i].dtype == b.params()[i].dtype,
            "{} stores {} in {}, but {} stores it in {}: they were trained in different types",
            a.directory().string(), a.params()[i].name, name_of(a.params()[i].dtype),
            b.directory().string(), name_of(b.params()[i].dtype));
}

template <class T>
static std::span<const T> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Returns the arrays of both checkpoints, weights first.
static std::vector<std::string> arrays_of_both(const CheckpointReader& a,
                                               const CheckpointReader& b) {
  std::vector<std::string> names;
  for (const auto* reader : {&a, &b})
    for (const auto& p : reader->params())
      names.insert(names.end(), p.arrays.begin(), p.arrays.end());
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  names.insert(names.begin(), std::string(weights_array));
  return names;
}

static bool has(const CheckpointReader& reader, const std::string& name, const std::string& array) {
  const auto arrays = reader.arrays_of(name);
  return array == weights_array || std::ranges::find(arrays, array) != arrays.end();
}

static Tally compare_one(CheckpointReader& a, CheckpointReader& b, const ParamSpec& p,
                         const std::string& array, DType dtype) {
  Tally tally;
  std::vector<std::byte> other;
  const auto count = a.shape_of(p.name, array).count();
  a.read(p.name, array, 0, count, [&](std::int64_t first, std::span<const std::byte> x) {
    other.resize(x.size());
    const auto n = static_cast<std::int64_t>(x.size() / bytes_of(dtype));
    b.read(p.name, array, first, n, other);
    if (dtype == DType::f64)
      tally.add(first, as<double>(x), as<double>(other));
    else
      tally.add(first, as<float>(x), as<float>(other));
  });
  return tally;
}

// Calls go_on(difference) for each tensor, until it returns false.
template <class F>
static void each_difference(const ModelSpec& spec, CheckpointReader& a, CheckpointReader& b,
                            F go_on) {
  for (const auto& array : arrays_of_both(a, b))
    for (std::size_t i = 0; i < spec.params.size(); ++i) {
      const auto& p = spec.params[i];
      if (!is_saved(p)) continue;
      const bool in_a = has(a, p.name, array), in_b = has(b, p.name, array);
      if (!in_a && !in_b) continue;
      if (in_a && in_b && a.shape_of(p.name, array) != b.shape_of(p.name, array)) {
        // Optimizers with other matrices have other arrays.
        for (const auto* const side : {"A", "B"})
          if (!go_on(TensorDifference{{array, ParamId::at(i)}, {}, side})) return;
        continue;
      }
      TensorDifference d{{array, ParamId::at(i)}, {}, in_a && in_b ? "" : in_a ? "A" : "B"};
      const auto at = std::ranges::lower_bound(a.params(), p.name, {}, &ParamInfo::name);
      if (in_a && in_b) d.tally = compare_one(a, b, p, array, at->dtype);
      if (!go_on(std::move(d))) return;
    }
}

TensorDifferences compare_states(const ModelSpec& spec, CheckpointReader& a, CheckpointReader& b) {
  TensorDifferences all;
  each_difference(spec, a, b, [&](TensorDifference d) {
    all.push_back(std::move(d));
    return true;
  });
  return all;
}

bool equal_states(const ModelSpec& spec, CheckpointReader& a, CheckpointReader& b) {
  bool equal = a.meta().updates == b.meta().updates;
  if (equal)
    each_difference(spec, a, b, [&](const TensorDifference& d) { return equal = !d.differs(); });
  return equal;
}

static Values downloaded(Backend& b, ConstView x) {
  const auto fill = [&](auto values) -> Values {
    values.resize(static_cast<std::size_t>(x.count()));
    b.download(Queue::compute, std::as_writable_bytes(std::span(values)), x);
    return values;
  };
  if (x.dtype == DType::i64) return fill(std::vector<std::int64_t>());
  if (x.dtype == DType::f64) return fill(std::vector<double>());
  return fill(std::vector<float>());
}

TensorValues gradients_of(Trainer& trainer) {
  TensorValues values;
  auto& store = trainer.store();
  for (std::size_t i = 0; i < store.layout().segments.size(); ++i) {
    const auto& segment = store.layout().segments[i];
    if (!store.trainability().trains(segment)) continue;
    for (const auto& slot : segment.slots)
      values[{std::string(gradients_array), slot.param}] = downloaded(
          trainer.backend(), store.gradients().sum(i).slice(slot.begin, {slot.count}).view());
  }
  return values;
}

TensorValues state_of(Trainer& trainer) {
  TensorValues values;
  auto& store = trainer.store();
  const auto read = [&](ParamId p, const std::string& array) {
    const auto fill = [&](auto of) -> Values {
      of.resize(static_cast<std::size_t>(store.shape(p, array).count()));
      store.read(p, array, 0, std::as_writable_bytes(std::span(of)));
      return of;
    };
    values[{array, p}] =
        store.master() == DType::f64 ? fill(std::vector<double>()) : fill(std::vector<float>());
  };
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto p = ParamId::at(i);
    read(p, std::string(weights_array));
    if (!store.has_arrays(p)) continue;
    for (const auto& array : store.arrays(p)) read(p, array);
  }
  return values;
}

// Converts counts of fixed-point quanta to the gradients that the optimizer reads.
static Values as_floats(const std::vector<std::int64_t>& counts) {
  std::vector<float> values;
  for (const auto quanta : counts) values.push_back(fixed::to_gradient(quanta));
  return values;
}

// Returns the position of an array: gradients first, then weights, then the optimizer's arrays.
static int rank_of(const std::string& array) {
  return array == gradients_array ? 0 : array == weights_array ? 1 : 2;
}

static void add(Tally& tally, const Values& a, const Values& b) {
  if (const auto* counts = std::get_if<std::vector<std::int64_t>>(&a);
      counts && a.index() != b.index())
    return add(tally, as_floats(*counts), b);
  if (const auto* counts = std::get_if<std::vector<std::int64_t>>(&b);
      counts && a.index() != b.index())
    return add(tally, a, as_floats(*counts));
  std::visit(
      [&](const auto& x) {
        using T = typename std::remove_cvref_t<decltype(x)>::value_type;
        const auto* y = std::get_if<std::vector<T>>(&b);
        require(y != nullptr, "the two were trained in different types");
        tally.add(0, std::span<const T>(x), std::span<const T>(*y));
      },
      a);
}

static std::size_t size_of(const Values& values) {
  return std::visit([](const auto& x) { return x.size(); }, values);
}

TensorDifferences compare_values(const TensorValues& a, const TensorValues& b) {
  TensorDifferences all;
  for (const auto& [name, x] : a) {
    const auto y = b.find(name);
    if (y == b.end()) continue;
    if (size_of(x) != size_of(y->second)) {  // arrays of an optimizer with other matrices
      for (const auto* const side : {"A", "B"}) all.push_back({name, {}, side});
      continue;
    }
    TensorDifference d{name, {}, ""};
    add(d.tally, x, y->second);
    all.push_back(std::move(d));
  }
  std::ranges::stable_sort(all, [](const auto& x, const auto& y) {
    const int i = rank_of(x.name.array), j = rank_of(y.name.array);
    return i != j ? i < j : x.name < y.name;
  });
  return all;
}

std::vector<int> stages_of_units(const ModelSpec& spec, std::span<const std::int64_t> blocks) {
  const int last = static_cast<int>(blocks.size()) - 1;
  std::vector<int> stages(spec.units.size(), 0);
  stages[spec.norm_unit.index()] = last;
  if (spec.head_unit != spec.table_unit) stages[spec.head_unit.index()] = last;
  std::size_t block = 0;
  for (int s = 0; s <= last; ++s)
    for (std::int64_t n = blocks[static_cast<std::size_t>(s)]; n > 0; --n)
      stages[spec.blocks[block++].unit.index()] = s;
  return stages;
}

}  // namespace trireme
