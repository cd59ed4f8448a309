// Adapters in peft's format as a checkpoint of adapters.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/version.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/interchange/import.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/draft.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Of adapter_config.json: what is read, and what has no part in the numbers, or shows in which
// tensors there are.
constexpr std::string_view read_or_idle[] = {"auto_mapping",
                                             "base_model_name_or_path",
                                             "bias",
                                             "ensure_weight_tying",
                                             "exclude_modules",
                                             "fan_in_fan_out",
                                             "inference_mode",
                                             "init_lora_weights",
                                             "layers_pattern",
                                             "layers_to_transform",
                                             "lora_alpha",
                                             "lora_dropout",
                                             "megatron_config",
                                             "megatron_core",
                                             "peft_type",
                                             "peft_version",
                                             "qalora_group_size",
                                             "r",
                                             "revision",
                                             "runtime_config",
                                             "target_modules",
                                             "task_type",
                                             "use_rslora"};

bool says_nothing(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

AdapterConfig config_of(const Json& json, const std::string& where) {
  const ConfigFields fields(json);
  require(fields.text("peft_type", "") == "LORA", "{}: peft_type is {}; LORA can be imported",
          where, json.contains("peft_type") ? json["peft_type"].dump() : "missing");
  fields.refuse_if(fields.text("bias", "none") != "none", "bias", "biases stay as they are here");
  for (const auto& [key, value] : json.items())
    require(std::ranges::find(read_or_idle, key) != std::end(read_or_idle) || says_nothing(value),
            "{}: {} = {} changes what adapters are, and is not known here", where, key,
            value.dump());
  // Others change the weights that they stand beside when they are loaded.
  const auto begin = json.value("init_lora_weights", Json(true));
  fields.refuse_if(!begin.is_boolean() && begin != "gaussian" && !begin.is_null(),
                   "init_lora_weights", "it changes the weights that adapters stand beside");
  AdapterConfig a;
  a.rank = fields.integer("r");
  a.alpha = fields.real("lora_alpha");
  a.dropout = fields.real("lora_dropout", 0);
  a.rank_stabilized = fields.flag("use_rslora", false);
  require(a.rank > 0 && a.rank <= 65536 && a.alpha > 0,
          "{}: r = {} and lora_alpha = {} are no adapters", where, a.rank, a.alpha);
  return a;
}

// The products that the file has adapters of, which become the patterns.
AdapterConfig with_products(AdapterConfig a, ModelConfig model, const SafetensorsFile& file) {
  model.adapter = a;
  model.adapter.patterns = {"*"};
  std::set<std::string> names;
  for (const auto& t : file.tensors()) names.insert(t.name);
  a.patterns.clear();
  for (const auto& t : adapter_tensors(make_spec(model)))
    if (names.contains(t.name) && std::ranges::find(a.patterns, t.product) == a.patterns.end())
      a.patterns.push_back(t.product);
  require(!a.patterns.empty(),
          "{} has no tensor of a product of this model; the first of its {} is {}",
          file.path().string(), names.size(), names.empty() ? "" : *names.begin());
  return a;
}

struct Source {
  AdapterTensor ours;
  SafeTensor theirs;
  ElementType type;
};

// By parameter, each tensor's place.
std::map<std::string, std::vector<Source>> sources_of(const ModelSpec& spec,
                                                      const SafetensorsFile& file) {
  std::map<std::string, SafeTensor> left;
  for (const auto& t : file.tensors()) left[t.name] = t;
  std::map<std::string, std::vector<Source>> all;
  for (const auto& t : adapter_tensors(spec)) {
    const auto found = left.find(t.name);
    require(found != left.end(), "{} lacks {}", file.path().string(), t.name);
    const auto& theirs = found->second;
    const auto type = element_type(theirs.type);
    require(type && theirs.shape == std::vector<std::int64_t>{t.rows, t.columns},
            "{}: {} is {}, expected [{}, {}]", file.path().string(), t.name, described(theirs),
            t.rows, t.columns);
    all[spec.params[t.param.index()].name].push_back({t, theirs, *type});
    left.erase(found);
  }
  require(left.empty(),
          "{} has {}, which is beside no product of this model that can have adapters",
          file.path().string(), left.empty() ? "" : left.begin()->first);
  return all;
}

// Elements [first, ..) of a parameter, in the master type.
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
    file.read(s.theirs, (from - begin) * theirs, stored);
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
  auto deck = deck_of(base);
  require(deck.model.adapter.rank == 0, "{} is a checkpoint of adapters itself",
          base.directory().string());
  deck.model.adapter = with_products(
      config_of(parse_object(read_text(config_path), config_path), config_path), deck.model, file);
  deck.model.init_from = fs::absolute(base.directory()).lexically_normal().string();
  const auto spec = make_spec(deck.model);
  const auto sources = sources_of(spec, file);
  const auto master = base.params().front().dtype;

  CheckpointMeta meta = base.meta();
  meta.step = meta.samples = meta.tokens = 0;
  meta.skipped.clear();
  meta.updates.clear();
  meta.extra = {};
  meta.extra.base = to_string(base.identity_of_weights());
  meta.deck = dump_deck(deck);
  meta.version = version();
  meta.run = random_id();
  meta.pipe = meta.data = meta.seq = meta.expert = 1;
  std::vector<ParamSlice> slices;
  for (const auto& p : spec.params) {
    if (!is_saved(p)) continue;
    meta.updates[p.name] = 0;
    require(is_of_adapter(p), "{} cannot be imported: it moves by loads", p.name);
    slices.push_back({p.name, std::string(weights_array), p.shape, 0, p.shape.count(), master});
  }
  Draft draft(checkpoint);
  make_directory(draft.path());
  const auto saved =
      save_checkpoint(draft.path(), meta, slices,
                      [&](const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
                        read(sources.at(s.name), file, s.begin + first, s.dtype, to);
                      });
  draft.publish(saved);
  return {deck.model, meta.tokenizer_kind, master, file.tensors().size(), 1, 0};
}

}  // namespace trireme
