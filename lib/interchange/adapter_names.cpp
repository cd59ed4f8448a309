#include "lib/interchange/adapter_names.hpp"

#include "lib/base/error.hpp"
#include "lib/interchange/hf_names.hpp"

namespace trireme {

// Returns the module that has the weight's channels from `channel` on.
static std::string module_of(const std::vector<HfTensor>& tensors, const ParamSpec& weight,
                             std::int64_t channel) {
  for (const auto& t : tensors)
    if (t.param == weight.name && t.begin == channel * weight.shape[1])
      return t.name.substr(0, t.name.rfind(".weight"));
  fail("no transformers module begins at channel {} of {}", channel, weight.name);
}

static std::string product_at(const ModelConfig& c, const ParamSpec& weight, std::int64_t channel) {
  const auto name = weight.name.substr(0, weight.name.rfind(".weight"));
  for (const auto& p : products_of(c, name, weight.shape[0]))
    if (p.channel == channel) return p.name;
  fail("{} has no product that begins with channel {}", name, channel);
}

std::vector<AdapterTensor> adapter_tensors(const ModelSpec& spec) {
  const auto modules = hf_tensors(make_spec(without_adapters(spec.config)));
  std::vector<AdapterTensor> all;
  for (const auto& adapter : spec.adapters) {
    const auto& weight = spec.params[adapter.weight.index()];
    for (std::size_t i = 0; i < adapter.products.size(); ++i) {
      const auto& p = adapter.products[i];
      const auto module = module_of(modules, weight, p.channel);
      const auto product = product_at(spec.config, weight, p.channel);
      const auto name = "base_model.model." + module;
      all.push_back({name + ".lora_A.weight", module, product, adapter.a,
                     static_cast<std::int64_t>(i) * adapter.rank, adapter.rank, weight.shape[1]});
      all.push_back(
          {name + ".lora_B.weight", module, product, adapter.b, p.row, p.channels, adapter.rank});
    }
  }
  return all;
}

}  // namespace trireme
