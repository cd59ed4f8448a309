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

}  // namespace

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

}  // namespace trireme
