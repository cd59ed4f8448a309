#include "lib/interchange/stored_model.hpp"

#include <cstring>
#include <utility>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"

namespace trireme {

static DType stored_type(const CheckpointReader& reader) {
  const auto& params = reader.params();
  require(!params.empty(), "{} contains no parameters", reader.directory().string());
  for (const auto& p : params)
    require(p.dtype == params[0].dtype,
            "{} stores {} as {} but {} as {}; all parameters must have the same type",
            reader.directory().string(), params[0].name, name_of(params[0].dtype), p.name,
            name_of(p.dtype));
  return params[0].dtype;
}

template <class T>
static std::vector<double> read_as(CheckpointReader& reader, const ParamSpec& p) {
  std::vector<T> values(static_cast<std::size_t>(p.shape.count()));
  reader.read(p.name, weights_array, 0, p.shape.count(), std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

std::vector<double> read_doubles(CheckpointReader& reader, const ParamSpec& p) {
  return stored_type(reader) == DType::f64 ? read_as<double>(reader, p) : read_as<float>(reader, p);
}

StoredModel::StoredModel(CheckpointReader& reader, const ModelDescription& described,
                         CheckpointReader* base)
    : weights_(base ? *base : reader),
      meta_(reader.meta()),
      where_(reader.directory().string()),
      spec_(make_spec(described.model)),
      context_(described.context),
      stored_(stored_type(weights_)),
      dtype_(base && stored_type(reader) == DType::f64 ? DType::f64 : stored_) {
  expect((base != nullptr) == (described.adapter.rank > 0), "adapters need a base model");
  weights_.require_model(saved_params(spec_));
  if (!base) return;
  const auto adapted = make_spec(described.model, described.adapter);
  reader.require_model(saved_params(adapted));
  for (const auto& p : adapted.params)
    require(!is_saved(p) || p.role == ParamRole::adapter_a || p.role == ParamRole::adapter_b,
            "{} of {} cannot be merged into the weights of the base model. Export the adapters "
            "alone with --format peft",
            p.name, where_);
  scale_ = scale_of(described.adapter);
  for (const auto& adapter : adapted.adapters) {
    const auto& weight = adapted.params[adapter.weight.index()];
    merged_[weight.name] = {adapter, weight.shape[1],
                            read_doubles(reader, adapted.params[adapter.a.index()]),
                            read_doubles(reader, adapted.params[adapter.b.index()])};
  }
}

// Returns what adapters add to the element in row n and column i of their weight.
static double added(const AdapterParams& adapter, std::span<const double> a,
                    std::span<const double> b, std::int64_t inputs, std::int64_t n,
                    std::int64_t i) {
  for (std::size_t p = 0; p < adapter.products.size(); ++p) {
    const auto& product = adapter.products[p];
    if (n < product.channel || n >= product.channel + product.channels) continue;
    const auto row = product.row + n - product.channel,
               first = static_cast<std::int64_t>(p) * adapter.rank;
    double sum = 0;
    for (std::int64_t r = 0; r < adapter.rank; ++r)
      sum += b[static_cast<std::size_t>(row * adapter.rank + r)] *
             a[static_cast<std::size_t>((first + r) * inputs + i)];
    return sum;
  }
  return 0;
}

void StoredModel::add(const Merged& m, std::int64_t first, std::span<const std::byte> from,
                      std::span<std::byte> to) const {
  const auto as = [&]<class T>(T x) {
    const auto n = static_cast<std::int64_t>(from.size() / sizeof(T));
    for (std::int64_t e = 0; e < n; ++e) {
      std::memcpy(&x, from.data() + e * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      const auto row = (first + e) / m.inputs, column = (first + e) % m.inputs;
      x = static_cast<T>(x + scale_ * added(m.adapter, m.a, m.b, m.inputs, row, column));
      std::memcpy(to.data() + e * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
    }
  };
  if (dtype_ == DType::f64)
    as(double{});
  else
    as(float{});
}

static std::span<const std::byte> widened(std::span<const std::byte> f32,
                                          std::vector<double>& room) {
  room.resize(f32.size() / sizeof(float));
  for (std::size_t i = 0; i < room.size(); ++i) {
    float x = 0;
    std::memcpy(&x, f32.data() + i * sizeof x, sizeof x);
    room[i] = x;
  }
  return std::as_bytes(std::span(room));
}

void StoredModel::read(const std::string& param, std::int64_t begin, std::int64_t count,
                       const CheckpointReader::Sink& sink) {
  const auto found = merged_.find(param);
  std::vector<double> wide;
  std::vector<std::byte> sums;
  weights_.read(param, weights_array, begin, count,
                [&](std::int64_t first, std::span<const std::byte> elements) {
                  if (stored_ != dtype_) elements = widened(elements, wide);
                  if (found == merged_.end()) return sink(first, elements);
                  sums.resize(elements.size());
                  add(found->second, first, elements, sums);
                  sink(first, sums);
                });
}

}  // namespace trireme
