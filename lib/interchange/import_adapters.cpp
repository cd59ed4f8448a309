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

#include "lib/base/array_names.hpp"
#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/finite.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
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

// Throws Error if the file has an adapter that Trireme does not have: one of a module that computes
// several products (of Phi-3 or GLM-4, or all experts of a layer), each of which has its own
// adapter here, or one of an embedding.
void require_separate_modules(const SafetensorsFile& file) {
  struct Unsupported {
    std::string_view word, why;
  };
  constexpr std::string_view several =
      "its module computes several products, and Trireme trains an "
      "adapter for each of them";
  constexpr Unsupported all[] = {{".qkv_proj.lora_", several},
                                 {".gate_up_proj.lora_", several},
                                 {".experts.lora_", several},
                                 {".experts.base_layer.", several},
                                 {".lora_embedding_", "embeddings have no adapters"}};
  for (const auto& t : file.tensors())
    for (const auto& [word, why] : all)
      require(t.name.find(word) == t.name.npos,
              "{}: the tensor {} cannot be imported, because {}. {}", file.path().string(),
              escaped(t.name), why, merge_advice);
}

const SafeTensor* find_tensor(const SafetensorsFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &SafeTensor::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

// Throws Error if only one of the embedding and the head is trained as a whole in a model that uses
// one table for them. peft saves both if `modules_to_save` names both, or with
// `ensure_weight_tying`.
void require_one_table(const AdapterTargets& targets, const HfTensor& embedding,
                       const std::string& config, const SafetensorsFile& file) {
  const auto is_whole = [&](std::string_view name) {
    return targets.trains_whole(module_of(name));
  };
  if (!is_whole(embedding.name) && !is_whole(hf_head)) return;
  const auto *const of_table = find_tensor(file, peft_name(embedding.name)),
                    *const of_head = find_tensor(file, peft_name(hf_head));
  require(
      of_table && of_head && same_elements(file, *of_table, file, *of_head),
      "{}: 'modules_to_save' names the embedding or the head. The base model uses one table for "
      "both, but {} does not contain equal tensors of both. Set 'ensure_weight_tying' when you "
      "train the adapter",
      config, file.path().string());
}

// Returns the names of the parameters of modules that are trained as a whole.
std::vector<std::string> trained_whole(const AdapterTargets& targets, const ModelConfig& model,
                                       const std::string& config, const SafetensorsFile& file) {
  const auto spec = make_spec(model);
  const auto tensors = hf_tensors(spec);
  if (model.tied) require_one_table(targets, tensors.front(), config, file);
  std::map<std::string, const ParamSpec*> by_name;
  for (const auto& p : spec.params) by_name[p.name] = &p;
  std::vector<std::string> params;
  std::set<std::string> others;
  for (const auto& t : tensors) {
    const auto module = module_of(t.name);
    const bool head =
        model.tied && &t == &tensors.front() && targets.trains_whole(module_of(hf_head));
    if (!targets.trains_whole(module) && !head) {
      others.insert(t.param);
      continue;
    }
    require(is_stored_whole(t, *by_name.at(t.param)),
            "{}: 'modules_to_save' names {}, which Trireme cannot import as a whole. {}", config,
            module, merge_advice);
    if (params.empty() || params.back() != t.param) params.push_back(t.param);
  }
  for (const auto& param : params)
    require(!others.contains(param),
            "{}: 'modules_to_save' names some of the modules that Trireme stores as the one weight "
            "{}, but not all of them. {}",
            config, param, merge_advice);
  return params;
}

AdapterTargets::RankAndAlpha rank_and_alpha_in(const std::string& config,
                                               const AdapterTargets& targets,
                                               const std::string& module) {
  try {
    return targets.rank_and_alpha(module);
  } catch (const Error& e) {
    fail("{} cannot be imported: {}", config, e.what());
  }
}

// Returns the config with patterns for the products that have adapters in the file.
AdapterConfig with_products(AdapterConfig a, const AdapterTargets& targets,
                            const ModelConfig& model, const std::string& config,
                            const SafetensorsFile& file) {
  require_separate_modules(file);
  const auto also_train = trained_whole(targets, model, config, file);
  a.patterns = {"*"};
  // Words such as down_proj name experts only where these are modules, which have tensors then.
  const bool experts = std::ranges::any_of(file.tensors(), [](const SafeTensor& t) {
    return t.name.find(".experts.") != t.name.npos && t.name.find(".lora_") != t.name.npos;
  });
  if (experts && model.experts > 0) a.patterns.emplace_back("*experts.*");
  require(!experts || model.experts == 0 || a.method != AdapterMethod::dora,
          "{}: 'use_dora' is not supported for adapters of experts. {}", config, merge_advice);
  const auto all = make_spec(model, a);
  std::set<std::string> names, modules, with_tensors;
  std::map<std::string, std::string> products;  // by module
  for (const auto& t : file.tensors()) names.insert(t.name);
  a.patterns.clear();
  for (const auto& t : adapter_tensors(all, SharedModules::skip)) {
    modules.insert(t.module);
    if (!names.contains(t.name)) continue;
    with_tensors.insert(t.module);
    products.emplace(t.module, t.product);
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
    modules.insert(module_of(tensor));
  require_same_modules(targets, with_tensors, modules, config, file);
  a.also_train = also_train;
  for (const auto& [module, product] : products) {
    const auto [rank, alpha] = rank_and_alpha_in(config, targets, module);
    if (rank.value_or(a.rank) != a.rank || alpha.value_or(a.alpha) != a.alpha)
      a.ranks.push_back({product, rank.value_or(a.rank), alpha.value_or(a.alpha)});
  }
  return a;
}

struct Source {
  AdapterTensor ours;
  SafeTensor theirs;
  ElementType type;
  bool whole;  // of a parameter that is trained as a whole
};

// Returns the sources in the order of adapter_tensors: a, then b, of each pair. The sources of
// parameters that are trained as a whole follow.
std::vector<Source> sources_of(const ModelSpec& spec, const SafetensorsFile& file) {
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
        "of "
        "its weights was {} and is {}{}",
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
  const auto sources = sources_of(spec, file);
  const auto master = base.params().front().dtype;
  require_finite(sources, file, spec, master);
  compare_base(json, config_path, file, base);
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
  return {.described = std::move(described),
          .tokenizer = meta.tokenizer_kind,
          .master = master,
          .types = types,
          .tensors = sources.size(),
          .files = 1};
}

}  // namespace trireme
