#include "lib/train/state.hpp"

#include <algorithm>
#include <span>

#include "lib/base/error.hpp"

namespace trireme {

static_assert(weights_array == weights_name, "a checkpoint's arrays have the store's names");

static ParamId param(std::size_t i) {
  return {static_cast<std::int32_t>(i)};
}

// One array of a parameter, as far as it is here.
static void load(Store& store, CheckpointReader& reader, ParamId p, std::string_view array) {
  const auto mine = store.own(p);
  if (mine.count() > 0)
    reader.read(store.spec().params[p.index()].name, array, mine.begin, mine.count(),
                [&](std::int64_t first, std::span<const std::byte> elements) {
                  store.write(p, array, first, elements);
                });
}

// Count and optimizer's arrays of one parameter. One that was frozen when the checkpoint was made
// may have no arrays there.
static void load_arrays(Store& store, CheckpointReader& reader, ParamId p) {
  const auto& name = store.spec().params[p.index()].name;
  const auto& counts = reader.meta().updates;
  const auto found = counts.find(name);
  require(found != counts.end(), "{} counts the updates of {}, but not those of {}",
          (reader.directory() / manifest_name).string(), counts.size(), name);
  const auto count = found->second;
  store.set_count(p, count);
  const auto saved = reader.arrays_of(name);
  if (saved.empty() && count == 0) return;
  std::vector<std::string> kept(store.arrays().begin(), store.arrays().end());
  std::ranges::sort(kept);
  const auto list = [](const auto& names) {
    return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
  };
  require(saved == kept,
          "{} was trained with another optimizer: it holds {} of {}, where optimizer.name and its "
          "settings now keep {} -- restart with the optimizer of its deck, or start from its "
          "weights alone with model.init_from",
          reader.directory().string(), list(saved), name, list(kept));
  store.make_arrays(p);
  for (const auto& array : saved) load(store, reader, p, array);
}

void require_model(const CheckpointReader& reader, const ModelSpec& spec) {
  std::vector<std::pair<std::string, Shape>> model;
  for (const auto& p : spec.params) model.emplace_back(p.name, p.shape);
  reader.require_model(model);
}

void load_weights(Store& store, CheckpointReader& reader) {
  require_model(reader, store.spec());
  for (const auto& p : reader.params())
    require(p.dtype == store.master(),
            "{}: {} was saved as {}, this run keeps its weights in {}; use the precision.compute "
            "that the checkpoint was trained with",
            reader.directory().string(), p.name, name_of(p.dtype), name_of(store.master()));
  for (std::size_t i = 0; i < store.spec().params.size(); ++i)
    if (store.holds(param(i))) load(store, reader, param(i), weights_array);
  store.refresh();
}

void load_state(Store& store, CheckpointReader& reader, std::span<const Standing> standings) {
  load_weights(store, reader);
  for (std::size_t i = 0; i < standings.size(); ++i)
    if (store.holds(param(i)) && standings[i].resumes) load_arrays(store, reader, param(i));
}

}  // namespace trireme
