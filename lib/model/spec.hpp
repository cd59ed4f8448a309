#pragma once
// ModelSpec: the parameters of a transformer, and the units in which the parameters are
// all-gathered. A ModelSpec contains no weights, so plans can use it for models of any size.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/ids.hpp"
#include "lib/base/view.hpp"
#include "lib/model/adapter.hpp"
#include "lib/model/config.hpp"
#include "lib/ops/product_type.hpp"

namespace trireme {

// Source of a parameter's updates: its gradient, the load of each expert (for a router's bias), or
// none (for the frozen base model of adapters).
enum class LearnsFrom : std::uint8_t { gradients, loads, nothing };

// What a parameter is for. The biases of a layer have its role. `linear` is a linear layer of a
// block, including those of the shared expert.
enum class ParamRole : std::uint8_t {
  embedding,
  positions,
  norm,
  sinks,
  linear,
  expert,
  router,
  shared_gate,
  head,
  adapter_a,
  adapter_b,
  adapter_norms
};

// Rows of a packed parameter that belong to one projection: "q", "k" and "v" of qkv, or "gate" and
// "up" of ffn_in.
struct PackedRows {
  std::string_view name;
  std::int64_t row = 0, rows = 0;
};

// One parameter of the model.
struct ParamSpec {
  std::string name;  // such as "blocks.3.qkv.weight"; weights have the shape [out, in]
  ParamRole role;
  Shape shape;
  UnitId unit;
  bool decay;  // true if weight decay applies; false for norms and biases
  // Standard deviation and mean of the normal distribution of initial values. Constants have
  // init_std = 0.
  double init_std;
  double init_mean;
  LearnsFrom learns_from = LearnsFrom::gradients;
  bool wide = false;                    // true if computations use its wide type
  std::int64_t expert = -1;             // index of the expert it belongs to, or -1
  std::vector<PackedRows> packed = {};  // projections in a packed parameter, in order
  BaseType kept = BaseType::compute;    // storage type, which may be smaller for frozen weights
  ProductType products = ProductType::compute;  // type of the weight's products
  double lr_factor = 1;                         // factor on the learning rate
};

// Returns true if checkpoints of the model contain the parameter. Checkpoints of adapters do not
// contain the frozen base model, which has its own checkpoint.
inline bool is_saved(const ParamSpec& p) {
  return p.learns_from != LearnsFrom::nothing;
}

// Returns true if the parameter belongs to an adapter.
inline bool is_of_adapter(const ParamSpec& p) {
  return p.role == ParamRole::adapter_a || p.role == ParamRole::adapter_b ||
         p.role == ParamRole::adapter_norms;
}

// Parameters of one transformer block. The id of a parameter that the block does not have is -1.
struct BlockParams {
  UnitId unit;
  ParamId attention_norm, attention_norm_bias, qkv, qkv_bias, q_norm, k_norm, sinks;
  ParamId projection, projection_bias, attention_out_norm, attention_out_norm_bias;
  ParamId ffn_norm, ffn_norm_bias, ffn_out_norm, ffn_out_norm_bias;
  ParamId ffn_in, ffn_in_bias, ffn_out, ffn_out_bias;  // if the block has one MLP
  // Parameters of a mixture of experts: the router, the shared expert and the experts. A router
  // with sigmoid scores has `router_bias`, which load balancing changes. `logit_bias` is the bias
  // of the router's product. It learns from gradients and has the same name.
  ParamId router, router_bias, logit_bias, shared_gate, shared_in, shared_out;
  std::vector<ParamId> expert_in, expert_in_bias, expert_out, expert_out_bias;  // by expert
};

// An adapter of one weight w_NC. The adapter covers P products, each with a range of the N output
// channels. Product p adds scale * x a_p' b_p' to its channels. `a` is [P * R, C], with R rows per
// product. `b` has R columns and one row for each covered channel. `norms` (DoRA) has one element
// for each covered channel, in the order of the rows of `b`. Without DoRA, `norms` is -1.
struct AdapterParams {
  ParamId weight, a, b, norms;
  std::int64_t rank = 0;
  double scale = 0;
  struct Product {
    std::int64_t channel, channels;  // range of the weight's output channels
    std::int64_t row;                // first row of `b`
    bool operator==(const Product&) const = default;
  };
  std::vector<Product> products;
  std::int64_t site = 0;  // index of its dropout layer
};

// A matrix product that can have an adapter. It computes the output channels [channel, channel +
// channels) of a weight.
struct AdaptedProduct {
  std::string name;  // such as "blocks.3.qkv.q"
  std::int64_t channel = 0, channels = 0;
};
// Returns the products of one weight of a linear layer: one for each of its projections. GPT-2 and
// models built like it store qkv as one matrix, so with learned positions a weight is one product.
std::vector<AdaptedProduct> products_of(const ModelConfig&, const ParamSpec&);

// All parameters of a model.
struct ModelSpec {
  ModelConfig config;     // completed, with vocab set
  AdapterConfig adapter;  // without adapters, its rank is 0
  std::vector<std::string> units;
  std::vector<ParamSpec> params;  // by ParamId
  // Units of the parts outside blocks. With tied embeddings, head_unit == table_unit.
  UnitId table_unit, position_unit, norm_unit, head_unit;
  ParamId table, positions, final_norm, final_norm_bias, head;
  std::vector<BlockParams> blocks;
  // In the order of their blocks, then of the embedding and of the head.
  std::vector<AdapterParams> adapters;

  // Returns the weight's adapter, or null if it has none.
  const AdapterParams* adapter_of(ParamId weight) const;
  std::int64_t parameter_count() const;
  // Returns the number of parameters that the computation of one token uses. It excludes the
  // experts that a token does not choose.
  std::int64_t active_parameter_count() const;
};

// Returns the names and shapes of the parameters in checkpoints of the model.
std::vector<std::pair<std::string, Shape>> saved_params(const ModelSpec&);

// Returns the products that have adapters and the parameters in AdapterConfig::also_train, without
// the numbers of blocks and experts and without repetition, such as "qkv.q, qkv.v and
// experts.ffn_in.gate; as a whole: embedding.weight". Returns an empty text without adapters.
std::string adapters_text(const ModelSpec&);

// Returns the parameters of a model and its adapters. Throws Error if the config is not completed,
// vocab is 0, experts are configured illegally, or add_adapters() refuses the adapters.
ModelSpec make_spec(const ModelConfig&, const AdapterConfig& = {});

// The weights whose products are in fp8: those of linear layers in blocks, with exceptions, and
// possibly the head's. Routers, routed experts, gates and adapters never use fp8.
struct Fp8Weights {
  std::vector<std::string> except = {};        // name patterns (with * and ?) of exceptions
  std::int64_t skip_first = 0, skip_last = 0;  // blocks without fp8 at both ends of the model
  bool head = false;                           // whether the head uses fp8, unless excepted
  // Returns true if all blocks of the model are treated alike.
  bool same_in_all_blocks() const { return except.empty() && skip_first == 0 && skip_last == 0; }
  bool operator==(const Fp8Weights&) const = default;
};
// Returns true if the weight's products are in fp8 according to all rules except the patterns.
bool uses_fp8(const ModelSpec&, ParamId, const Fp8Weights&);
// Selects fp8 for the products of these weights.
ModelSpec with_fp8(ModelSpec, const Fp8Weights&);

}  // namespace trireme
