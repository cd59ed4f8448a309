#include "lib/interchange/families/mixture.hpp"

#include <algorithm>
#include <set>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"

namespace trireme {

namespace {

// Returns the number of experts. Versions of transformers use different members.
std::int64_t read_experts(const ConfigFields& f, const char* usual) {
  const auto *local = f.find("num_local_experts"), *plain = f.find("num_experts");
  require(!local || !plain || *local == *plain,
          "'num_local_experts' = {} and 'num_experts' = {} must be equal",
          local ? shown(*local) : "", plain ? shown(*plain) : "");
  return f.integer(local ? "num_local_experts" : plain ? "num_experts" : usual);
}

// Returns the layers that have one MLP: the listed layers, and all layers except every
// decoder_sparse_step-th.
std::vector<std::int64_t> read_dense_layers(const ConfigFields& f, std::int64_t layers) {
  const auto step = f.integer("decoder_sparse_step", 1);
  const auto* listed = f.find("mlp_only_layers");
  require(!listed || listed->is_array(), "'mlp_only_layers' is not an array");
  std::set<std::int64_t> dense;
  if (listed)
    for (const auto& layer : *listed) dense.insert(integer(layer, "mlp_only_layers"));
  std::vector<std::int64_t> all;
  for (std::int64_t l = 0; l < countable(layers); ++l)
    if (dense.contains(l) || (l + 1) % step != 0) all.push_back(l);
  return all;
}

}  // namespace

void experts_config(ConfigArchive& a, ModelConfig& c, const char* key, std::int64_t per_token) {
  if (a.reads())
    c.experts = read_experts(a.fields(), key);
  else
    a.note(key, c.experts);
  a.integer("num_experts_per_tok", c.experts_per_token, per_token);
  if (a.reads())
    a.fields().refuse_if(c.experts_per_token > c.experts, "num_experts_per_tok",
                         fmt::format("a layer has {}", counted(c.experts, "expert")));
}

void dense_layers_config(ConfigArchive& a, ModelConfig& c) {
  a.integer("moe_intermediate_size", c.expert_width);
  if (a.reads()) {
    c.dense_layers = read_dense_layers(a.fields(), c.layers);
    return;
  }
  auto dense = c.dense_layers;
  std::ranges::sort(dense);
  a.note("mlp_only_layers", dense);
  a.note("decoder_sparse_step", 1);
}

}  // namespace trireme
