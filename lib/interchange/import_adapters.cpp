// Conversion of adapters in peft's format to a checkpoint of adapters.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/finite.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/adapter_config.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/adapter_products.hpp"
#include "lib/interchange/base_layers.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/import.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/io/save_weights.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

struct Source {
  AdapterTensor ours;
  SafeTensor theirs;
  ElementType type;
  bool whole;  // of a parameter that is trained as a whole
};

// Returns the sources in the order of adapter_tensors: a, then b, of each pair. The sources of
// parameters that are trained as a whole follow.
std::vector<Source> sources_of(const ModelSpec& spec, const SafetensorsFile& file,
                               CheckpointReader& base) {
  std::map<std::string, SafeTensor> left;
  for (const auto& t : file.tensors()) left[t.name] = t;
  std::vector<Source> all;
  auto ours = adapter_tensors(spec);
  std::ranges::copy(also_trained_tensors(spec), std::back_inserter(ours));
  for (const auto& t : ours) {
    const auto found = left.find(t.name);
    require(found != left.end(), "{} does not contain the tensor {}", file.path().string(), t.name);
    const auto& theirs = found->second;
    const auto type = element_type(theirs.type);
    require(type && theirs.shape == t.shape(),
            "{}: the tensor {} is {}, but must have the shape [{}]. Pass the model that the "
            "adapter was trained on with --base",
            file.path().string(), t.name, described(theirs), fmt::join(t.shape(), ", "));
    all.push_back({t, theirs, *type, !is_of_adapter(spec.params[t.param.index()])});
    left.erase(found);
  }
  check_and_remove_base_weights(left, spec, file, base);
  for (const auto& [name, _] : left)
    require(
        name.find(".lora_") != name.npos || name.find("lm_head") == name.npos,
        "{} contains the tensor {}, which peft saves if the vocabulary was resized. Add its "
        "module, and that of the embedding, to 'modules_to_save' in adapter_config.json if they "
        "were trained. Otherwise save the adapter with save_embedding_layers=False",
        file.path().string(), escaped(name));
  require(left.empty(),
          "{} contains the tensor {}, which belongs to no weight of this model that can have an "
          "adapter. Pass the model that the adapter was trained on with --base",
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

// Throws Error unless all elements are finite in the master type, and the output of each pair is
// finite for all inputs up to 1.
void require_finite(const std::vector<Source>& sources, const SafetensorsFile& file,
                    const ModelSpec& spec, DType master) {
  const double most =
      master == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const auto role_of = [&](const Source& s) { return spec.params[s.ours.param.index()].role; };
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (role_of(sources[i]) == ParamRole::adapter_b) continue;  // checked with its a
    if (role_of(sources[i]) != ParamRole::adapter_a) {
      largest_of(sources[i], file, master);
      continue;
    }
    const auto &a = sources[i], &b = sources[i + 1];
    const auto scale = rank_and_scale_of(spec.adapter, a.ours.product).scale;
    const double inner = largest_of(a, file, master) * static_cast<double>(a.ours.columns),
                 outer = scale * largest_of(b, file, master) * static_cast<double>(a.ours.rows);
    require(
        inner <= most && outer <= most && inner * outer <= most,
        "{}: the adapter of {} has weights so large that its output, scaled by {}, may overflow {}",
        file.path().string(), a.ours.module, scale, name_of(master));
  }
}

// Adds HfTensor::plus, such as the 1 in Gemma's norms, to elements of an also-trained parameter.
void add_offset(const Source& s, DType type, std::span<std::byte> to) {
  const auto as = [&]<class T>(T x) {
    for (std::size_t at = 0; at < to.size(); at += sizeof x) {
      std::memcpy(&x, to.data() + at, sizeof x);
      x = static_cast<T>(static_cast<double>(x) + s.ours.weight.plus);
      std::memcpy(to.data() + at, &x, sizeof x);
    }
  };
  type == DType::f64 ? as(double{}) : as(float{});
}

// Reads elements of the part of a parameter from number `first` on, as they are stored. Whole rows
// may have another order in the file.
void read_rows(const Source& s, const SafetensorsFile& file, std::int64_t first,
               std::span<std::byte> to) {
  const auto size = static_cast<std::int64_t>(bytes_of(s.type)), columns = s.ours.width();
  if (s.ours.transposed) {
    std::vector<std::byte> whole(static_cast<std::size_t>(s.theirs.bytes));
    file.read(s.theirs, 0, whole);
    for (; !to.empty(); to = to.subspan(static_cast<std::size_t>(size)), ++first) {
      const auto at = (first % columns * s.ours.rows + first / columns) * size;
      std::copy_n(whole.begin() + at, size, to.begin());
    }
    return;
  }
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
    const auto begin = s.ours.begin * s.ours.width();
    const auto from = std::max(first, begin),
               until = std::min(end, begin + s.ours.rows * s.ours.width());
    if (from >= until) continue;
    const auto theirs = static_cast<std::int64_t>(bytes_of(s.type));
    std::vector<std::byte> stored(static_cast<std::size_t>((until - from) * theirs));
    read_rows(s, file, from - begin, stored);
    const auto part = to.subspan(static_cast<std::size_t>((from - first) * size),
                                 static_cast<std::size_t>((until - from) * size));
    read_elements(s.type, stored, type, part);
    if (s.whole && s.ours.weight.plus != 0) add_offset(s, type, part);
  }
}

// Warns if the adapters were trained on other weights than those of `base`. If the file does not
// say which weights these were, logs the name of the base model in the configuration.
void compare_base(const Json& config, const std::string& config_path, const SafetensorsFile& file,
                  const CheckpointReader& base) {
  const auto trained_on = file.metadata(base_hash_key),
             given = to_string(base.identity_of_weights());
  const auto name = config.value("base_model_name_or_path", Json());
  const auto named = name.is_string() ? name.get<std::string>() : "";
  if (trained_on == given) return;
  if (!trained_on.empty())
    log_warning(
        "these adapters were trained on a base model with other weights than --base {}: the hash "
        "of its weights was {} and is {}{}",
        base.directory().string(), trained_on, given,
        named.empty() ? ""
                      : fmt::format(". {} names the base model {}", config_path, escaped(named)));
  else if (!named.empty())
    log_info("{} names the base model {}. Check that --base {} was imported from it", config_path,
             escaped(named), base.directory().string());
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
  const auto spec = [&] {
    try {
      return make_spec(described.model, described.adapter);
    } catch (const Error& e) {
      fail("{} cannot be imported: {}", config_path, e.what());
    }
  }();
  CheckpointReader base_weights(base.directory());  // `base` is const, and reading is not
  const auto sources = sources_of(spec, file, base_weights);
  const auto master = base.params().front().dtype;
  require_finite(sources, file, spec, master);
  compare_base(json, config_path, file, base);
  std::map<std::string, std::vector<Source>> of_param;
  for (const auto& source : sources)
    of_param[spec.params[source.ours.param.index()].name].push_back(source);

  auto meta = without_run(base.meta());
  meta.extra.base = to_string(base.identity_of_weights());
  meta.extra.imported.clear();  // of the base model, which exports read there
  meta.model = dump_model(described);
  meta.deck.clear();
  save_weights(checkpoint, meta, saved_params(spec), master,
               [&](const std::string& param, std::int64_t first, std::span<std::byte> to) {
                 read(of_param.at(param), file, first, master, to);
               });
  std::set<ElementType> types;
  for (const auto& source : sources) types.insert(source.type);
  return {.described = std::move(described),
          .tokenizer = meta.tokenizer_kind,
          .master = master,
          .types = types,
          .tensors = sources.size(),
          .files = 1};
}

}  // namespace trireme
