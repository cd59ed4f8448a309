// Conversion of adapters in peft's format to a checkpoint of adapters.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/finite.hpp"
#include "lib/base/json.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/version.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/adapter_config.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/import.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/io/checkpoint_save.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Throws Error unless both files have the same modules. peft uses the modules that
// adapter_config.json names, and it initializes those without tensors itself.
void require_same_modules(const AdapterTargets& targets, const std::set<std::string>& with_tensors,
                          const std::set<std::string>& modules, const std::string& config,
                          const SafetensorsFile& file) {
  for (const auto& m : with_tensors)
    require(targets.name(m),
            "{}: {} does not name {}, but {} contains its tensors. Name the module in the "
            "configuration, or remove its tensors from the file",
            config, targets.text(), m, file.path().string());
  for (const auto& m : modules)
    require(with_tensors.contains(m) || !targets.name(m),
            "{}: {} names {}, but {} contains no tensors of it. Remove the module from the "
            "configuration, or save the adapter again",
            config, targets.text(), m, file.path().string());
}

// Throws Error if the file has an adapter of a module of Phi-3 or GLM-4 that computes several
// products, each of which has its own adapter here.
void require_no_packed_modules(const SafetensorsFile& file) {
  for (const auto& t : file.tensors())
    for (const std::string_view word : {".qkv_proj.", ".gate_up_proj."})
      require(t.name.find(word) == t.name.npos,
              "{}: the tensor {} cannot be imported, because its module computes several products, "
              "and Trireme trains an adapter for each of them. Merge the adapter into the model "
              "with merge_and_unload() of PEFT, and import the merged model without --base",
              file.path().string(), escaped(t.name));
}

// Returns the config with patterns for the products that have adapters in the file.
AdapterConfig with_products(AdapterConfig a, const AdapterTargets& targets,
                            const ModelConfig& model, const std::string& config,
                            const SafetensorsFile& file) {
  require_no_packed_modules(file);
  a.patterns = {"*"};
  // Words such as down_proj name experts only where these are modules, which have tensors then.
  const bool experts = std::ranges::any_of(
      file.tensors(), [](const SafeTensor& t) { return t.name.find(".experts.") != t.name.npos; });
  if (experts && model.experts > 0) a.patterns.emplace_back("*experts.*");
  const auto all = make_spec(model, a);
  std::set<std::string> names, modules, with_tensors;
  for (const auto& t : file.tensors()) names.insert(t.name);
  a.patterns.clear();
  for (const auto& t : adapter_tensors(all, SharedModules::skip)) {
    modules.insert(t.module);
    if (!names.contains(t.name)) continue;
    with_tensors.insert(t.module);
    if (std::ranges::find(a.patterns, t.product) == a.patterns.end())
      a.patterns.push_back(t.product);
  }
  require(
      !a.patterns.empty(),
      "{} contains no adapter tensor that is supported for this model{}. Pass the model that the "
      "adapter was trained on with --base",
      file.path().string(),
      names.empty() ? "" : fmt::format("; its first tensor is {}", escaped(*names.begin())));
  const auto embedding = hf_tensors(make_spec(model)).front().name;
  for (const std::string_view tensor : {std::string_view(embedding), hf_head})
    modules.emplace(tensor.substr(0, tensor.rfind(".weight")));
  require_same_modules(targets, with_tensors, modules, config, file);
  return a;
}

struct Source {
  AdapterTensor ours;
  SafeTensor theirs;
  ElementType type;
};

// Returns the sources in the order of adapter_tensors: a, then b, of each pair.
std::vector<Source> sources_of(const ModelSpec& spec, const SafetensorsFile& file) {
  std::map<std::string, SafeTensor> left;
  for (const auto& t : file.tensors()) left[t.name] = t;
  std::vector<Source> all;
  for (const auto& t : adapter_tensors(spec)) {
    const auto found = left.find(t.name);
    require(found != left.end(), "{} does not contain the tensor {}", file.path().string(), t.name);
    const auto& theirs = found->second;
    const auto type = element_type(theirs.type);
    require(type && theirs.shape == std::vector<std::int64_t>{t.rows, t.columns},
            "{}: the tensor {} is {}, but must have the shape [{}, {}]. Pass the model that the "
            "adapter was trained on with --base",
            file.path().string(), t.name, described(theirs), t.rows, t.columns);
    all.push_back({t, theirs, *type});
    left.erase(found);
  }
  require(left.empty(),
          "{} contains the tensor {}, which belongs to no weight of this model that can have an "
          "adapter",
          file.path().string(), left.empty() ? "" : escaped(left.begin()->first));
  return all;
}

// Returns the largest magnitude in a source. Throws Error if an element is not finite in the master
// type.
double largest_of(const Source& s, const SafetensorsFile& file, DType master) {
  const auto size = static_cast<std::size_t>(s.theirs.count());
  std::vector<std::byte> stored(static_cast<std::size_t>(s.theirs.bytes)),
      numbers(size * bytes_of(master));
  file.read(s.theirs, 0, stored);
  read_elements(s.type, stored, master, numbers);
  if (const auto wrong = first_not_finite(numbers, master))
    fail("{} of {} is not finite as {} at element {}", s.theirs.name, file.path().string(),
         name_of(master), *wrong);
  std::vector<double> wide(size);
  read_elements(s.type, stored, DType::f64, std::as_writable_bytes(std::span(wide)));
  double largest = 0;
  for (const auto x : wide) largest = std::max(largest, std::fabs(x));
  return largest;
}

// Throws Error unless the output of each pair is finite in the master type for all inputs up to 1.
void require_finite(const std::vector<Source>& sources, const SafetensorsFile& file, double scale,
                    DType master) {
  const double most =
      master == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < sources.size(); i += 2) {
    const auto &a = sources[i], &b = sources[i + 1];
    const double inner = largest_of(a, file, master) * static_cast<double>(a.ours.columns),
                 outer = scale * largest_of(b, file, master) * static_cast<double>(a.ours.rows);
    require(
        inner <= most && outer <= most && inner * outer <= most,
        "{}: the adapter of {} has weights so large that its output, scaled by {}, may overflow {}",
        file.path().string(), a.ours.module, scale, name_of(master));
  }
}

// Reads elements of the part of a parameter from number `first` on, as they are stored. Whole rows
// may have another order in the file.
void read_rows(const Source& s, const SafetensorsFile& file, std::int64_t first,
               std::span<std::byte> to) {
  const auto size = static_cast<std::int64_t>(bytes_of(s.type)), columns = s.ours.columns;
  if (s.ours.weight.group == 0) {
    file.read(s.theirs, first * size, to);
    return;
  }
  while (!to.empty()) {
    const auto row = first / columns, column = first % columns;
    const auto count = std::min(columns - column, static_cast<std::int64_t>(to.size()) / size);
    const auto part = to.first(static_cast<std::size_t>(count * size));
    file.read(s.theirs, (s.ours.row_in_tensor(row) * columns + column) * size, part);
    to = to.subspan(part.size());
    first += count;
  }
}

// Reads elements of a parameter from number `first` on, converted to `type`.
void read(const std::vector<Source>& sources, const SafetensorsFile& file, std::int64_t first,
          DType type, std::span<std::byte> to) {
  const auto size = static_cast<std::int64_t>(bytes_of(type));
  const auto end = first + static_cast<std::int64_t>(to.size()) / size;
  for (const auto& s : sources) {
    const auto begin = s.ours.begin * s.ours.columns;
    const auto from = std::max(first, begin),
               until = std::min(end, begin + s.ours.rows * s.ours.columns);
    if (from >= until) continue;
    const auto theirs = static_cast<std::int64_t>(bytes_of(s.type));
    std::vector<std::byte> stored(static_cast<std::size_t>((until - from) * theirs));
    read_rows(s, file, from - begin, stored);
    read_elements(s.type, stored, type,
                  to.subspan(static_cast<std::size_t>((from - first) * size),
                             static_cast<std::size_t>((until - from) * size)));
  }
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) {
  return fs::exists(folder / "adapter_config.json");
}

ImportSummary import_adapters(const fs::path& folder, const fs::path& checkpoint,
                              const CheckpointReader& base) {
  const auto config_path = (folder / "adapter_config.json").string();
  const SafetensorsFile file(folder / "adapter_model.safetensors");
  auto described = description_of(base);
  require(described.adapter.rank == 0,
          "--base {} is itself an adapter checkpoint. Pass the checkpoint of a base model",
          base.directory().string());
  const auto json = parse_object(read_text(config_path), config_path);
  std::optional<AdapterTargets> targets;
  AdapterConfig adapter;
  try {
    adapter = adapter_config_of(json);
    targets.emplace(json);
  } catch (const Error& e) {
    fail("{} cannot be imported: {}", config_path, e.what());
  }
  described.adapter = with_products(adapter, *targets, described.model, config_path, file);
  described.init_from = fs::absolute(base.directory()).lexically_normal().string();
  const auto spec = make_spec(described.model, described.adapter);
  const auto sources = sources_of(spec, file);
  const auto master = base.params().front().dtype;
  require_finite(sources, file, scale_of(described.adapter), master);
  std::map<std::string, std::vector<Source>> of_param;
  for (const auto& source : sources)
    of_param[spec.params[source.ours.param.index()].name].push_back(source);

  CheckpointMeta meta = base.meta();
  meta.step = meta.samples = meta.tokens = 0;
  meta.skipped.clear();
  meta.updates.clear();
  RunExtra extra;
  extra.base = to_string(base.identity_of_weights());
  extra.generation = std::move(meta.extra.generation);
  meta.extra = std::move(extra);
  meta.model = dump_model(described);
  meta.deck.clear();
  meta.version = version();
  meta.run = random_id();
  meta.grid = {};
  std::vector<ParamSlice> slices;
  for (const auto& p : spec.params) {
    if (!is_saved(p)) continue;
    meta.updates[p.name] = 0;
    require(is_of_adapter(p),
            "adapters of this model cannot be imported, because load balancing changes {}", p.name);
    slices.push_back({p.name, std::string(weights_array), p.shape, 0, p.shape.count(), master});
  }
  Draft draft(checkpoint);
  make_directory(draft.path());
  const auto saved =
      save_checkpoint(draft.path(), meta, slices,
                      [&](const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
                        read(of_param.at(s.name), file, s.begin + first, s.dtype, to);
                      });
  draft.publish(saved);
  std::set<ElementType> types;
  for (const auto& source : sources) types.insert(source.type);
  return {std::move(described), meta.tokenizer_kind, master, types, sources.size(), 1, 0};
}

}  // namespace trireme
