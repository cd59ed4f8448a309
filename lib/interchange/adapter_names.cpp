#include "lib/interchange/adapter_names.hpp"

#include "lib/base/error.hpp"

namespace trireme {

// Returns the tensor that has the weight's channels from `channel` on. Returns nullptr if the
// tensor contains other channels, too.
static const HfTensor* tensor_at(const std::vector<HfTensor>& tensors, const ParamSpec& weight,
                                 const AdapterParams::Product& p) {
  const auto columns = weight.shape[1];
  for (const auto& t : tensors)
    if (t.param == weight.name && t.begin == p.channel * columns &&
        t.shape.count() == p.channels * columns)
      return &t;
  return nullptr;
}

static std::string product_at(const ModelConfig& c, const ParamSpec& weight, std::int64_t channel) {
  for (const auto& p : products_of(c, weight))
    if (p.channel == channel) return p.name;
  fail("{} has no product that begins with channel {}", weight.name, channel);
}

std::vector<AdapterTensor> adapter_tensors(const ModelSpec& spec, SharedModules shared) {
  const auto modules = hf_tensors(make_spec(spec.config));
  std::vector<AdapterTensor> all;
  for (const auto& adapter : spec.adapters) {
    const auto& weight = spec.params[adapter.weight.index()];
    for (std::size_t i = 0; i < adapter.products.size(); ++i) {
      const auto& p = adapter.products[i];
      const auto product = product_at(spec.config, weight, p.channel);
      const auto* const tensor = tensor_at(modules, weight, p);
      if (!tensor && shared == SharedModules::skip) continue;
      require(tensor,
              "peft's format cannot store the adapter of {}, because one module of transformers "
              "computes this product and others. Leave the product out of adapter.patterns",
              product);
      const auto module = tensor->name.substr(0, tensor->name.rfind(".weight"));
      const auto name = "base_model.model." + module;
      all.push_back({name + ".lora_A.weight", module, product, adapter.a,
                     static_cast<std::int64_t>(i) * adapter.rank, adapter.rank, weight.shape[1]});
      all.push_back({name + ".lora_B.weight", module, product, adapter.b, p.row, p.channels,
                     adapter.rank, *tensor});
    }
  }
  return all;
}

}  // namespace trireme
