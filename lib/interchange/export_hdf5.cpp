#include <cmath>
#include <span>
#include <vector>

#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/deck/table.hpp"
#include "lib/interchange/export.hpp"
#include "lib/io/weights_file.hpp"

namespace trireme {

// Returns the value of a key as an attribute. Flags are 0 and 1, and "auto" is 0.
static SettingValue value_of(const Key& key, const Deck& deck) {
  return std::visit(
      [&](const auto& x) -> SettingValue {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<T, bool>) return std::int64_t{x};
        if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::string> ||
                      std::is_same_v<T, std::vector<std::int64_t>>)
          return x;
        return key.kind == ValueKind::integer ? SettingValue(std::int64_t{0}) : SettingValue(0.0);
      },
      key.access.get(deck, 0));
}

// Returns the settings of a model under the names of the deck's keys.
static std::vector<Setting> settings_of(const StoredModel& stored) {
  const auto& model = stored.spec().config;
  const auto& meta = stored.meta();
  Deck deck;
  deck.model = model;
  deck.data.context = stored.context();
  if (model.attention_scale == 0)
    deck.model.attention_scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  std::vector<Setting> all;
  for (const auto& key : find_section("model")->keys)
    if (key.name == "max_context")  // "auto" in a deck whose samples are as long
      all.push_back({key.name, model.max_context});
    else if (!key.of_run)
      all.push_back({key.name, value_of(key, deck)});
  all.push_back({"step", meta.step});
  all.push_back({"tokenizer_kind", meta.tokenizer_kind.empty() ? "none" : meta.tokenizer_kind});
  return all;
}

ExportSummary export_hdf5(StoredModel model, const std::filesystem::path& file,
                          std::optional<ElementType> type) {
  const auto stored = model.dtype();
  ExportSummary summary;
  summary.type = type.value_or(element_type(stored));
  require(summary.type != ElementType::bf16, "HDF5 has no bf16. Set --dtype f32, or omit --dtype");
  std::vector<WeightsDataset> datasets;
  for (const auto& p : model.spec().params) {
    datasets.push_back(
        {p.name, p.shape, summary.type == ElementType::f64 ? DType::f64 : DType::f32});
    summary.bytes += p.shape.count() * static_cast<std::int64_t>(bytes_of(summary.type));
  }
  summary.tensors = datasets.size();
  summary.files = 1;

  Draft draft(file);
  std::vector<std::byte> rounded;
  write_weights_file(
      draft.path(), datasets, settings_of(model), model.meta().tokenizer,
      [&](const WeightsDataset& d, const ElementSink& next) {
        model.read(d.name, 0, d.shape.count(),
                   [&](std::int64_t, std::span<const std::byte> elements) {
                     rounded.resize(elements.size() / bytes_of(stored) * bytes_of(summary.type));
                     write_elements(stored, elements, summary.type, rounded, d.name);
                     next(rounded);
                   });
      });
  draft.publish();
  return summary;
}

}  // namespace trireme
