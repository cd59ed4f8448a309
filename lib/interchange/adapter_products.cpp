#include "lib/interchange/adapter_products.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/hf_tensors.hpp"

namespace trireme {

namespace {

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

// Why Trireme has no such adapter.
enum class Why : std::uint8_t { several_products, tied_embeddings };

// Throws Error if the file has an adapter that Trireme does not support: of a module that computes
// several products (in Phi-3, GLM-4 and experts), or of tied embeddings.
void require_supported_modules(const SafetensorsFile& file, bool tied) {
  struct Unsupported {
    std::string_view word;
    Why why;
  };
  constexpr Unsupported all[] = {
      {".qkv_proj.lora_", Why::several_products}, {".gate_up_proj.lora_", Why::several_products},
      {".experts.lora_", Why::several_products},  {".experts.base_layer.", Why::several_products},
      {".lora_embedding_", Why::tied_embeddings}, {".lm_head.lora_", Why::tied_embeddings}};
  for (const auto& t : file.tensors())
    for (const auto& [word, why] : all) {
      if (t.name.find(word) == t.name.npos || (why == Why::tied_embeddings && !tied)) continue;
      require(
          why != Why::tied_embeddings,
          "{}: the tensor {} cannot be imported, because the base model has tied embeddings, and "
          "tied embeddings cannot have an adapter. Do not merge it: that would change the head, "
          "too. Untie the model (tie_word_embeddings = false, with a copy of the embedding as "
          "lm_head), and import the untied model for --base",
          file.path().string(), escaped(t.name));
      fail(
          "{}: the tensor {} cannot be imported, because its module computes several products, and "
          "Trireme trains an adapter for each of them. {}",
          file.path().string(), escaped(t.name), merge_advice);
    }
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

}  // namespace

AdapterConfig with_products(AdapterConfig a, const AdapterTargets& targets,
                            const ModelConfig& model, const std::string& config,
                            const SafetensorsFile& file) {
  require_supported_modules(file, model.tied);
  const auto also_train = trained_whole(targets, model, config, file);
  a.patterns = {"*"};
  const auto has_adapter = [&](std::string_view part) {
    return std::ranges::any_of(file.tensors(), [&](const SafeTensor& t) {
      return t.name.find(part) != t.name.npos && t.name.find(".lora_") != t.name.npos;
    });
  };
  // Words such as down_proj name experts only where these are modules, which have tensors then.
  const bool experts = has_adapter(".experts.");
  if (experts && model.experts > 0) a.patterns.emplace_back("*experts.*");
  require(!experts || model.experts == 0 || a.method != AdapterMethod::dora,
          "{}: 'use_dora' is not supported for adapters of experts. {}", config, merge_advice);
  const bool embedding_adapter = has_adapter(".lora_embedding_"),
             head_adapter = has_adapter(".lm_head.");
  require(a.method != AdapterMethod::dora || !(embedding_adapter || head_adapter),
          "{}: 'use_dora' is not supported for adapters of the embedding or the head. {}", config,
          merge_advice);
  if (embedding_adapter) a.patterns.emplace_back("embedding");
  if (head_adapter) a.patterns.emplace_back("head");
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

}  // namespace trireme
