#include "lib/train/state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/nf4.hpp"
#include "lib/base/array_names.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/io/stored_doubles.hpp"

namespace trireme {

// An array of a parameter that is to be loaded.
struct Wanted {
  ParamId param;
  std::string array;
};

using Elements = std::span<const std::byte>;

// Converts f32 to f64, which is exact.
static std::vector<double> widened(Elements f32) {
  std::vector<float> narrow(f32.size() / sizeof(float));
  std::memcpy(narrow.data(), f32.data(), f32.size());
  return {narrow.begin(), narrow.end()};
}

// Loads a parameter that is stored in NF4 records. Each record must be written as a whole.
static void load_records(Store& store, CheckpointReader& reader, const Wanted& w, bool widen) {
  constexpr std::int64_t most = nf4::weights << 8;
  const auto mine = store.own(w.param);
  std::vector<std::byte> all;
  for (auto begin = mine.begin; begin < mine.end; begin += most) {
    const auto n = std::min(most, mine.end - begin);
    all.resize(static_cast<std::size_t>(n) * bytes_of(widen ? DType::f32 : store.master()));
    reader.read(store.spec().params[w.param.index()].name, w.array, begin, n, std::span(all));
    if (!widen) {
      store.write(w.param, w.array, begin, all);
      continue;
    }
    const auto wide_elements = widened(all);
    store.write(w.param, w.array, begin, std::as_bytes(std::span(wide_elements)));
  }
}

// Loads the elements that this rank holds. While one array is read, the disk prefetches the first
// bytes of the next array.
static void load(Store& store, CheckpointReader& reader, std::span<const Wanted> all,
                 bool widen = false) {
  const auto name = [&](const Wanted& w) { return store.spec().params[w.param.index()].name; };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i + 1 < all.size()) {
      const auto next = store.own(all[i + 1].param, all[i + 1].array);
      reader.expect(name(all[i + 1]), all[i + 1].array, next.begin, next.count());
    }
    const auto& [p, array] = all[i];
    if (store.in_records(p)) {
      load_records(store, reader, all[i], widen);
      continue;
    }
    const auto mine = store.own(p, array);
    reader.read(name(all[i]), array, mine.begin, mine.count(),
                [&](std::int64_t first, Elements elements) {
                  if (!widen) return store.write(p, array, first, elements);
                  const auto wide_elements = widened(elements);
                  store.write(p, array, first, std::as_bytes(std::span(wide_elements)));
                });
  }
}

// Restores the update count of one parameter, allocates its optimizer arrays and appends them to
// `wanted`. If the parameter was frozen when the checkpoint was saved, the checkpoint may have no
// arrays for it. Averages that only the checkpoint has are ignored. Those that only the store has
// begin at the weights.
static void resume(Store& store, const CheckpointReader& reader, ParamId p,
                   std::vector<Wanted>& wanted) {
  const auto& name = store.spec().params[p.index()].name;
  const auto& counts = reader.meta().updates;
  const auto found = counts.find(name);
  require(found != counts.end(),
          "{} contains the update counts of {} parameters, but not the update count of {}",
          (reader.directory() / manifest_name).string(), counts.size(), name);
  const auto count = found->second;
  store.set_count(p, count);
  auto saved = reader.arrays_of(name);
  if (saved.empty() && count == 0) return;
  auto kept = store.arrays(p);
  const bool averaged = std::erase(saved, average_array) > 0 && std::erase(kept, average_array) > 0;
  std::erase(kept, average_array);
  std::ranges::sort(kept);
  const auto list = [](const auto& names) {
    return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
  };
  const bool by_patterns = std::ranges::any_of(
      store.layout().segments, [](const Segment& s) { return s.matrices().count() > 0; });
  require(saved == kept,
          "{} was trained with another optimizer: it contains {} of {}, but the deck's optimizer "
          "has {} -- restart with the optimizer settings in its deck{}, or load only its weights "
          "with model.init_from",
          reader.directory().string(), list(saved), name, list(kept),
          by_patterns ? ", including optimizer.adamw_patterns" : "");
  for (const auto& array : saved) {
    const auto shape = reader.shape_of(name, array);
    require(shape == store.shape(p, array),
            "{}: {}/{} has the shape {}, but the deck's optimizer gives it the shape {} -- restart "
            "with the optimizer settings in its deck, such as optimizer.matrix_heads",
            reader.directory().string(), array, name, to_string(shape),
            to_string(store.shape(p, array)));
  }
  store.make_arrays(p);
  for (const auto& array : saved) wanted.push_back({p, array});
  if (averaged) wanted.push_back({p, std::string(average_array)});
}

void require_model(const CheckpointReader& reader, const ModelSpec& spec) {
  reader.require_model(saved_params(spec));
}

static void require_master(const CheckpointReader& reader, DType master, bool may_widen) {
  for (const auto& p : reader.params())
    require(p.dtype == stored_type(reader) &&
                (p.dtype == master || (may_widen && p.dtype == DType::f32 && master == DType::f64)),
            "{}: {} was saved as {}, but this run stores weights in {}; use the precision.compute "
            "that the checkpoint was trained with",
            reader.directory().string(), p.name, name_of(p.dtype), name_of(master));
}

static void load_weights(Store& store, CheckpointReader& reader, bool may_widen,
                         bool (*which)(const ParamSpec&)) {
  require_master(reader, store.master(), may_widen);
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto id = ParamId::at(i);
    if (store.holds(id) && which(store.spec().params[i]))
      wanted.push_back({id, std::string(weights_array)});
  }
  load(store, reader, wanted, stored_type(reader) != store.master());
  store.start_averages();
  store.refresh();
}

void require_base(const CheckpointReader& reader, const ModelConfig& model) {
  require_model(reader, make_spec(model));
}

void load_base(Store& store, CheckpointReader& reader) {
  require_base(reader, store.spec().config);
  load_weights(store, reader, true, [](const ParamSpec& p) { return !is_of_adapter(p); });
}

// Returns the norms of rows [first, first + rows) of a matrix with `width` columns.
static std::vector<double> norms_of_rows(CheckpointReader& reader, const std::string& name,
                                         std::int64_t first, std::int64_t rows,
                                         std::int64_t width) {
  const auto x = read_doubles(reader, name, first * width, rows * width);
  std::vector<double> norms;
  for (auto row = x.begin(); row != x.end(); row += width)
    norms.push_back(std::sqrt(std::inner_product(row, row + width, row, 0.0)));
  return norms;
}

// Initializes the norms that this rank holds. Returns how many of them are 0.
static std::int64_t initialize_norms(Store& store, CheckpointReader& reader,
                                     const AdapterParams& adapter) {
  constexpr std::int64_t most = 1 << 20;  // elements in memory
  std::int64_t zeros = 0;
  const auto& weight = store.spec().params[adapter.weight.index()];
  const auto width = weight.shape[1], batch = std::max<std::int64_t>(1, most / width);
  for (const auto& p : adapter.products) {
    const auto mine = intersection(store.own(adapter.norms), {p.row, p.row + p.channels});
    for (auto row = mine.begin; row < mine.end; row += batch) {
      const auto channel = p.channel + row - p.row, rows = std::min(batch, mine.end - row);
      const auto norms = norms_of_rows(reader, weight.name, channel, rows, width);
      zeros += std::ranges::count(norms, 0.0);
      const std::vector<float> narrow(norms.begin(), norms.end());
      store.write(adapter.norms, weights_array, row,
                  store.master() == DType::f64 ? std::as_bytes(std::span(norms))
                                               : std::as_bytes(std::span(narrow)));
    }
  }
  return zeros;
}

void initialize_norms(Store& store, CheckpointReader& reader) {
  for (const auto& adapter : store.spec().adapters) {
    if (adapter.norms == ParamId{} || !store.holds(adapter.norms)) continue;
    const auto zeros = initialize_norms(store, reader, adapter);
    if (zeros > 0)
      log_warning(
          "at least {} of {} in the base model contain only zeros. DoRA cannot train these rows: "
          "leave their product out of adapter.patterns, or set adapter.method = \"lora\"",
          counted(static_cast<std::size_t>(zeros), "row"),
          store.spec().params[adapter.weight.index()].name);
  }
  store.start_averages();
  store.refresh();
}

void load_weights(Store& store, CheckpointReader& reader) {
  require_model(reader, store.spec());
  load_weights(store, reader, true, is_saved);
}

void load_state(Store& store, CheckpointReader& reader,
                std::span<const FreezeState> freeze_states) {
  require_model(reader, store.spec());
  load_weights(store, reader, false, is_saved);
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < freeze_states.size(); ++i) {
    const auto id = ParamId::at(i);
    if (store.holds(id) && freeze_states[i].resumes && is_saved(store.spec().params[i]))
      resume(store, reader, id, wanted);
  }
  load(store, reader, wanted);
}

}  // namespace trireme
