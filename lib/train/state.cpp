#include "lib/train/state.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_save.hpp"

namespace trireme {

static_assert(weights_array == weights_name, "a checkpoint's arrays have the store's names");

static ParamId param(std::size_t i) {
  return {static_cast<std::int32_t>(i)};
}

// What this rank writes, and the ids of the names.
static std::vector<ParamSlice> slices_of(const Store& store, std::map<std::string, ParamId>& ids) {
  const auto& params = store.spec().params;
  std::vector<ParamSlice> slices;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto mine = store.own(param(i));
    if (mine.count() == 0 || !store.speaks_for(param(i))) continue;
    ids.emplace(params[i].name, param(i));
    const auto add = [&](std::string_view array) {
      slices.push_back({params[i].name, std::string(array), params[i].shape, mine.begin,
                        mine.count(), store.master()});
    };
    add(weights_array);
    if (!store.has_arrays(param(i))) continue;
    for (const auto& array : store.arrays()) add(array);
  }
  return slices;
}

// Updates of the whole model: the first place of each stage speaks for its parameters.
static std::map<std::string, std::int64_t> updates_of(const Store& store, const Axes& axes) {
  const auto& params = store.spec().params;
  std::vector<double> counts(params.size(), 0);
  if (axes.at.data == 0 && axes.at.seq == 0)
    for (std::size_t i = 0; i < params.size(); ++i)
      if (store.speaks_for(param(i))) counts[i] = static_cast<double>(store.count(param(i)));
  axes.world.all_reduce(counts);
  std::map<std::string, std::int64_t> by_name;
  for (std::size_t i = 0; i < params.size(); ++i)
    by_name[params[i].name] = static_cast<std::int64_t>(counts[i]);
  return by_name;
}

static FileRecord write_slices(const Store& store, const std::filesystem::path& partial,
                               const ShardLabel& label) {
  std::map<std::string, ParamId> ids;
  const auto slices = slices_of(store, ids);
  if (slices.empty()) return {};
  std::vector<std::byte> buffer;
  const auto source = [&](const ParamSlice& s, std::int64_t first,
                          std::int64_t n) -> std::span<const std::byte> {
    buffer.resize(static_cast<std::size_t>(n) * bytes_of(s.dtype));
    store.read(ids.at(s.name), s.array, s.begin + first, buffer);
    return buffer;
  };
  return write_shard(partial, label, slices, source);
}

std::filesystem::path save_state(const Store& store, const Axes& axes,
                                 const std::filesystem::path& checkpoints, CheckpointMeta meta) {
  const auto& world = axes.world;
  meta.updates = updates_of(store, axes);
  std::string path;
  try {
    std::string partial;
    at_root(world, [&] { partial = begin_save(checkpoints, meta.step).string(); });
    world.broadcast(partial);
    FileRecord mine;
    together(world, [&] {
      mine = write_slices(store, partial, {world.rank(), meta.step, meta.run});
    });
    const auto texts = world.all_gather(mine.slices.empty() ? "" : to_text(mine));
    at_root(world, [&] {
      std::vector<FileRecord> shards;
      for (const auto& text : texts)
        if (!text.empty()) shards.push_back(parse_file_record(text));
      path = publish(checkpoints, meta, std::move(shards)).string();
    });
  } catch (const SharedError&) {
    if (world.rank() == 0) abandon_save(checkpoints, meta.step);
    throw;
  }
  world.broadcast(path);
  return path;
}

// One array of a parameter, as far as it is here, in pieces of a few MiB.
static void load(Store& store, CheckpointReader& reader, ParamId p, std::string_view array) {
  const auto& spec = store.spec().params[p.index()];
  const auto size = bytes_of(store.master());
  const auto most = static_cast<std::int64_t>(max_chunk_bytes / static_cast<std::int64_t>(size));
  const auto mine = store.own(p);
  std::vector<std::byte> buffer;
  for (std::int64_t first = mine.begin; first < mine.end; first += most) {
    const auto n = std::min(most, mine.end - first);
    buffer.resize(static_cast<std::size_t>(n) * size);
    reader.read(spec.name, array, first, n, buffer);
    store.write(p, array, first, buffer);
  }
}

// Count and optimizer's arrays of one parameter. One that was frozen when the checkpoint was made
// may have no arrays there.
static void load_arrays(Store& store, CheckpointReader& reader, ParamId p) {
  const auto& name = store.spec().params[p.index()].name;
  const auto& counts = reader.meta().updates;
  const auto found = counts.find(name);
  require(found != counts.end(), "{} says of {} updates, but not of those of {}",
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
