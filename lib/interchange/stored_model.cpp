#include "lib/interchange/stored_model.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"
#include "lib/io/stored_doubles.hpp"

namespace trireme {

StoredModel::StoredModel(CheckpointReader& reader, const ModelDescription& described,
                         CheckpointReader* base)
    : weights_(base ? *base : reader),
      reader_(reader),
      meta_(reader.meta()),
      where_(reader.directory().string()),
      spec_(make_spec(described.model)),
      context_(described.context),
      dtype_(stored_type(weights_)) {
  expect((base != nullptr) == (described.adapter.rank > 0), "adapters need a base model");
  weights_.require_model(saved_params(spec_));
  if (!base) return;
  if (stored_type(reader) == DType::f64) dtype_ = DType::f64;
  const auto adapted = make_spec(described.model, described.adapter);
  reader.require_model(saved_params(adapted));
  for (const auto& p : adapted.params)
    if (is_saved(p) && !is_of_adapter(p)) also_trained_.insert(p.name);
  for (const auto& adapter : adapted.adapters)
    merged_.emplace(adapted.params[adapter.weight.index()].name,
                    MergedWeight(adapted, adapter, reader, *base));
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
  auto& from = also_trained_.contains(param) ? reader_ : weights_;
  const bool widens = stored_type(from) != dtype_;
  const auto found = merged_.find(param);
  std::vector<double> wide;
  std::vector<std::byte> sums;
  from.read(param, weights_array, begin, count,
            [&](std::int64_t first, std::span<const std::byte> elements) {
              if (widens) elements = widened(elements, wide);
              if (found == merged_.end()) return sink(first, elements);
              sums.resize(elements.size());
              found->second.merge(first, dtype_, elements, sums);
              sink(first, sums);
            });
}

}  // namespace trireme
