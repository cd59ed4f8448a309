#include "lib/train/state.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "lib/io/checkpoint_save.hpp"

namespace trireme {

static State state_of(Content c) {
  return c == Content::weight    ? State::weight
         : c == Content::moment1 ? State::moment1
                                 : State::moment2;
}

static ParamId param(std::size_t i) {
  return {static_cast<std::int32_t>(i)};
}

std::filesystem::path save_state(const Store& store, const std::filesystem::path& checkpoints,
                                 CheckpointMeta meta) {
  const auto& params = store.spec().params;
  std::vector<ParamSlice> slices;
  std::map<std::string, ParamId> ids;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto& p = params[i];
    ids[p.name] = param(i);
    meta.adam_counts[p.name] = store.count(param(i));
    for (const Content c : all_contents)
      if (c == Content::weight || store.has_moments())
        slices.push_back({p.name, c, p.shape, 0, p.shape.count(), store.master()});
  }
  std::vector<std::byte> buffer;
  const auto source = [&](const ParamSlice& s, std::int64_t first,
                          std::int64_t n) -> std::span<const std::byte> {
    buffer.resize(static_cast<std::size_t>(n) * bytes_of(s.dtype));
    store.read(ids.at(s.name), state_of(s.content), first, buffer);
    return buffer;
  };
  return save_checkpoint(checkpoints, meta, slices, source);
}

// One parameter's content, in pieces of a few MiB.
static void load(Store& store, CheckpointReader& reader, ParamId p, Content content) {
  const auto& spec = store.spec().params[p.index()];
  const auto size = bytes_of(store.master());
  const auto most = static_cast<std::int64_t>(max_chunk_bytes / static_cast<std::int64_t>(size));
  std::vector<std::byte> buffer;
  for (std::int64_t first = 0; first < spec.shape.count(); first += most) {
    const auto n = std::min(most, spec.shape.count() - first);
    buffer.resize(static_cast<std::size_t>(n) * size);
    reader.read(spec.name, content, first, n, buffer);
    store.write(p, state_of(content), first, buffer);
  }
}

void require_model(const CheckpointReader& reader, const ModelSpec& spec) {
  std::vector<std::pair<std::string, Shape>> model;
  for (const auto& p : spec.params) model.emplace_back(p.name, p.shape);
  reader.require_model(model);
}

void load_state(Store& store, CheckpointReader& reader, Restore what) {
  const auto& params = store.spec().params;
  require_model(reader, store.spec());
  for (const auto& p : reader.params())
    require(p.dtype == store.master(),
            "{}: {} was saved as {}, this run keeps its weights in {}; use the precision.compute "
            "that the checkpoint was trained with",
            reader.directory().string(), p.name, name_of(p.dtype), name_of(store.master()));
  for (std::size_t i = 0; i < params.size(); ++i) {
    load(store, reader, param(i), Content::weight);
    if (what == Restore::weights || !store.has_moments()) continue;
    for (const Content c : {Content::moment1, Content::moment2}) {
      require(reader.has(params[i].name, c),
              "{} holds no AdamW moments of {}: it was trained with another optimizer; start from "
              "its weights with model.init_from instead",
              reader.directory().string(), params[i].name);
      load(store, reader, param(i), c);
    }
    store.set_count(param(i), reader.meta().adam_counts.at(params[i].name));
  }
  store.refresh();
}

}  // namespace trireme
