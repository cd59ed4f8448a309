#include "lib/interchange/adapter_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/expect.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

std::string module_of(std::string_view tensor) {
  for (const std::string_view kind : {".weight", ".bias"})
    if (tensor.ends_with(kind)) tensor.remove_suffix(kind.size());
  return std::string(tensor);
}

std::string peft_name(std::string_view name) {
  return fmt::format("base_model.model.{}", name);
}

// Calls f(adapter, product, tensor, alone) for each adapted product. `tensor` contains the weights
// of the product, and `alone` is false if the tensor contains weights of other products, too.
template <class F>
static void each_product(const ModelSpec& spec, const F& f) {
  const auto tensors = hf_tensors(make_spec(spec.config));
  std::multimap<std::string_view, const HfTensor*> of_param;
  for (const auto& t : tensors) of_param.emplace(t.param, &t);
  for (const auto& adapter : spec.adapters) {
    const auto& weight = spec.params[adapter.weight.index()];
    for (const auto& p : adapter.products) {
      const auto begin = p.channel * weight.shape[1], count = p.channels * weight.shape[1];
      const auto [first, last] = of_param.equal_range(weight.name);
      const auto found = std::find_if(first, last, [&](const auto& entry) {
        const auto& t = *entry.second;
        return t.begin <= begin && begin + count <= t.begin + t.shape.count();
      });
      ensure(found != last, "no product is in parts of several tensors");
      const auto& t = *found->second;
      f(adapter, p, t, t.begin == begin && t.shape.count() == count && t.experts == 0);
    }
  }
}

static std::string product_at(const ModelConfig& c, const ParamSpec& weight, std::int64_t channel) {
  for (const auto& p : products_of(c, weight))
    if (p.channel == channel) return p.name;
  fail("{} has no product that begins with channel {}", weight.name, channel);
}

std::vector<SharedProduct> shared_products(const ModelSpec& spec) {
  std::vector<SharedProduct> all;
  each_product(spec, [&](const AdapterParams& adapter, const AdapterParams::Product& p,
                         const HfTensor& tensor, bool alone) {
    if (!alone)
      all.push_back({product_at(spec.config, spec.params[adapter.weight.index()], p.channel),
                     module_of(tensor.name)});
  });
  return all;
}

std::string pattern_of(const std::string& product) {
  std::vector<std::string> words;
  for (const auto word : split(product, '.'))
    words.emplace_back(number_in<std::int64_t>(word) ? "*" : word);
  return fmt::format("{}", fmt::join(words, "."));
}

std::vector<AdapterTensor> adapter_tensors(const ModelSpec& spec, SharedModules shared) {
  std::vector<AdapterTensor> all;
  each_product(spec, [&](const AdapterParams& adapter, const AdapterParams::Product& p,
                         const HfTensor& tensor, bool alone) {
    if (!alone && shared == SharedModules::skip) return;
    const auto& weight = spec.params[adapter.weight.index()];
    const auto product = product_at(spec.config, weight, p.channel);
    const auto module = module_of(tensor.name), name = peft_name(module);
    require(alone,
            "peft's format cannot store the adapter of {}, because the module {} of transformers "
            "computes this product and others. Leave the product out of adapter.patterns",
            product, module);
    if (weight.role == ParamRole::embedding) {
      all.push_back({name + ".lora_embedding_B",
                     module,
                     product,
                     adapter.a,
                     0,
                     adapter.rank,
                     weight.shape[1],
                     {},
                     true});
      all.push_back({name + ".lora_embedding_A",
                     module,
                     product,
                     adapter.b,
                     0,
                     weight.shape[0],
                     adapter.rank,
                     {},
                     true});
      return;
    }
    const auto i = &p - adapter.products.data();
    all.push_back({name + ".lora_A.weight", module, product, adapter.a, i * adapter.rank,
                   adapter.rank, weight.shape[1]});
    all.push_back({name + ".lora_B.weight", module, product, adapter.b, p.row, p.channels,
                   adapter.rank, tensor});
    if (adapter.norms != ParamId{})
      all.push_back({name + ".lora_magnitude_vector", module, product, adapter.norms, p.row,
                     p.channels, 0, tensor});
  });
  return all;
}

std::vector<std::int64_t> AdapterTensor::shape() const {
  if (columns == 0) return {rows};
  if (transposed) return {columns, rows};
  return {rows, columns};
}

// transformers 5 has one module for all experts of a layer, and its Mixtral has another router than
// its files. Sinks are a parameter of the attention, not a module.
bool is_stored_whole(const HfTensor& t, const ParamSpec& p) {
  return t.storage == TensorStorage::rows && t.group == 0 && t.experts == 0 && p.expert < 0 &&
         p.role != ParamRole::sinks && t.name.find(".block_sparse_moe.") == t.name.npos;
}

std::vector<AdapterTensor> also_trained_tensors(const ModelSpec& spec) {
  std::map<std::string_view, ParamId> trained;
  for (std::size_t i = 0; i < spec.params.size(); ++i)
    if (is_saved(spec.params[i]) && !is_of_adapter(spec.params[i]))
      trained.emplace(spec.params[i].name, ParamId::at(i));
  if (trained.empty()) return {};
  std::vector<AdapterTensor> all;
  std::set<std::string> modules, left_out;
  for (const auto& t : hf_tensors(make_spec(spec.config))) {
    const auto found = trained.find(t.param);
    const auto module = module_of(t.name);
    if (found == trained.end()) {
      left_out.insert(module);
      continue;
    }
    require(is_stored_whole(t, spec.params[found->second.index()]),
            "peft's format cannot store {}, because transformers has no such module or stores it "
            "differently. Leave it out of adapter.also_train, or export the merged model",
            t.param);
    const bool vector = t.shape.dims() == 1;
    AdapterTensor tensor{.name = peft_name(t.name),
                         .module = module,
                         .product = {},
                         .param = found->second,
                         .begin = vector ? t.begin : t.begin / t.shape[1],
                         .rows = t.shape[0],
                         .columns = vector ? 0 : t.shape[1],
                         .weight = t};
    all.push_back(tensor);
    modules.insert(module);
    if (!spec.config.tied || spec.params[tensor.param.index()].role != ParamRole::embedding)
      continue;
    tensor.name = peft_name(hf_head);
    tensor.module = module_of(hf_head);
    all.push_back(std::move(tensor));
  }
  for (const auto& module : modules)
    require(!left_out.contains(module),
            "peft's format stores the module {} of transformers only as a whole, but "
            "adapter.also_train names some of its parameters. Name all of them, or none",
            module);
  return all;
}

}  // namespace trireme
