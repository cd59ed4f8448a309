#pragma once
// A transformer's parameters, and the units in which they are gathered, without any memory: pure,
// for plans of any size.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/ids.hpp"
#include "lib/base/view.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// What moves a parameter: its gradient; of a router's bias, how many tokens chose each expert; of
// what adapters stand beside, nothing.
enum class LearnsFrom : std::uint8_t { gradients, loads, nothing };

struct ParamSpec {
  std::string name;  // "blocks.3.qkv.weight"; weights are [out, in]
  Shape shape;
  UnitId unit;
  bool decay;        // weight decay applies (not to norms and biases)
  double init_std;   // normal(0, init_std) ...
  double init_mean;  // ... around this: constants have init_std 0
  LearnsFrom learns_from = LearnsFrom::gradients;
  bool wide = false;                  // computed with in the wide type
  std::int64_t expert = -1;           // that it is of
  BaseType kept = BaseType::compute;  // what learns from nothing may be kept in less
};

// Do checkpoints of the model have it? What adapters stand beside is in a checkpoint of its own.
inline bool is_saved(const ParamSpec& p) {
  return p.learns_from != LearnsFrom::nothing;
}

bool is_of_adapter(const ParamSpec&);

// Parameters of one block; value -1 where the model has none.
struct BlockParams {
  UnitId unit;
  ParamId attention_norm, attention_norm_bias, qkv, qkv_bias, q_norm, k_norm, sinks;
  ParamId projection, projection_bias, attention_out_norm, attention_out_norm_bias;
  ParamId ffn_norm, ffn_norm_bias, ffn_out_norm, ffn_out_norm_bias;
  ParamId ffn_in, ffn_in_bias, ffn_out, ffn_out_bias;  // of one MLP
  // Of a mixture: a router, of sigmoids with a bias, the MLP of all tokens, those of the experts.
  ParamId router, router_bias, shared_gate, shared_in, shared_out;
  std::vector<ParamId> expert_in, expert_out;  // by expert
};

// What is added to a product with a weight w_NC: its input by a_(PR)C', a block of R rows for each
// of P products, each by its rows of b, which are those of the channels that it adds to.
struct AdapterParams {
  ParamId weight, a, b;
  std::int64_t rank = 0;
  struct Product {
    std::int64_t channel, channels;  // of the weight's N
    std::int64_t row;                // of b
  };
  std::vector<Product> products;
  std::int64_t site = 0;  // of dropout
};

struct ModelSpec {
  ModelConfig config;  // completed, vocab known
  std::vector<std::string> units;
  std::vector<ParamSpec> params;                           // by ParamId
  UnitId table_unit, position_unit, norm_unit, head_unit;  // head_unit == table_unit when tied
  ParamId table, positions, final_norm, final_norm_bias, head;
  std::vector<BlockParams> blocks;
  std::vector<AdapterParams> adapters;  // in order of their blocks

  // Null: the weight has none.
  const AdapterParams* adapter_of(ParamId weight) const;
  std::int64_t parameter_count() const;
  // Without the experts that a token does not choose.
  std::int64_t active_parameter_count() const;
};

// Names and shapes of what its checkpoints have.
std::vector<std::pair<std::string, Shape>> saved_params(const ModelSpec&);

// Throws Error for a config that is not completed or whose vocab is 0, and for patterns of adapters
// that match no product.
ModelSpec make_spec(const ModelConfig&);

}  // namespace trireme
