#pragma once
// Configuration of training: the deck sections [train], [optimizer] and [precision].
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/base/value_names.hpp"
#include "lib/matrix/matrix_rule.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/product_type.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// Method for keeping the loads of experts even: none, router biases that follow the loads, or a
// balancing loss per sample.
enum class Balance : std::uint8_t { none, bias, sample };
template <>
inline constexpr auto value_names<Balance> = named<Balance>("none", "bias", "sample");

// Whether a block recomputes its forward pass from its input in the backward pass (activation
// checkpointing).
enum class Recompute : std::uint8_t { none, block };
template <>
inline constexpr auto value_names<Recompute> = named<Recompute>("none", "block");

// Tensors that are stored in host memory until the backward pass: none, or the block inputs that
// activation checkpointing keeps.
enum class Offload : std::uint8_t { none, inputs };
template <>
inline constexpr auto value_names<Offload> = named<Offload>("none", "inputs");

// Training objective. lib/train/objective.hpp describes each objective.
enum class Objective : std::uint8_t { tokens, dpo, simpo, orpo, kto, distill };
template <>
inline constexpr auto value_names<Objective> = named<Objective>("tokens", "dpo", "simpo", "orpo",
                                                                "kto", "distill");

// Settings of Objective::distill.
struct DistillConfig {
  std::string teacher;     // the teacher's checkpoint
  double temperature = 1;  // t; both models use softmax(z / t)
  double weight = 0.5;     // w; the loss is (1 - w) * token loss + w t^2 * divergence

  bool operator==(const DistillConfig&) const = default;
};

struct TrainConfig {
  std::int64_t batch = 8;  // samples per step, over all ranks
  // Smaller batches at the start of the run, such as "16 until 1000 steps"
  // (lib/train/batch_ramp.hpp).
  std::vector<std::string> batch_ramp = {};
  // Samples per forward/backward pass on each data-parallel rank. 0 means not yet decided.
  std::int64_t microbatch = 0;
  // Length of the run, in steps, tokens or epochs. Exactly one of them is greater than 0. When the
  // training data is open, with_tokens_for_epochs() (lib/deck/resolve.hpp) replaces `epochs`.
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  double epochs = 0;
  std::int64_t seed = 1;  // for initialization, data order and dropout
  double dropout = 0;     // probability, on residual branches and embedding
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;
  // Number of tokens that a block processes at a time, except in attention and mixtures of experts.
  // 0 means a whole micro-batch. If absent, chunk_tokens_of() decides.
  std::optional<std::int64_t> chunk_tokens{};
  Objective objective = Objective::tokens;
  double dpo_beta = 0.1;
  // File with scores of a fixed reference model. If empty, the reference is the model without
  // adapters.
  std::string dpo_scores{};
  double simpo_beta = 2, simpo_gamma = 1;
  double orpo_lambda = 0.1;
  double kto_beta = 0.1, kto_desirable_weight = 1, kto_undesirable_weight = 1;
  Balance balance = Balance::none;
  double balance_rate = 0.001;  // for Balance::bias, change of a bias per step (DeepSeek-V3)
  // Weight of the load-balancing loss of Balance::sample. Before weighting, the loss of a layer is
  // 1 if all its experts have the same load.
  double balance_weight = 0.01;
  double router_z = 0;           // weight of the mean squared log-sum-exp of router logits
  std::int64_t max_skipped = 5;  // skipped steps in a row after which the run stops
  // A step is skipped if its loss or gradient norm is more than this number of standard deviations
  // above the mean of the last `skip_window` steps. 0 disables this.
  double skip_above = 0;
  std::int64_t skip_window = 128;
  // Decay d of the exponential moving average of the weights: average = d average + (1 - d) weights
  // after each update. 0 keeps no average.
  double ema = 0;
  std::vector<std::string> skip_steps = {};  // steps to skip, such as "7" and "1200-1210"
  // Skipped steps in a row after which the run rolls back to the last checkpoint before them and
  // continues with later samples. 0 disables this. It happens at most `max_rollbacks` times.
  std::int64_t rollback = 0;
  std::int64_t max_rollbacks = 3;

  bool operator==(const TrainConfig&) const = default;
};

// Returns TrainConfig::chunk_tokens or, if it is absent, a default. `tokens` is the number of
// tokens of a sample on one rank. For up to 8,192 tokens, the default is 0, which means no chunks.
// For more tokens, the default is 4,096, rounded up to a multiple of `exact_chunk`.
constexpr std::int64_t chunk_tokens_of(const TrainConfig& t, std::int64_t tokens,
                                       std::int64_t exact_chunk) {
  constexpr std::int64_t whole_up_to = 8192, usual = 4096;
  if (t.chunk_tokens) return *t.chunk_tokens;
  if (tokens <= whole_up_to) return 0;
  const auto leaf = exact_chunk > 1 ? exact_chunk : 1;
  return (usual + leaf - 1) / leaf * leaf;
}

enum class OptimizerKind : std::uint8_t { adamw, sgd, lion, muon, shampoo };
template <>
inline constexpr auto value_names<OptimizerKind> = named<OptimizerKind>("adamw", "sgd", "lion",
                                                                        "muon", "shampoo");
// Returns true if the optimizer updates matrices as a whole. AdamW then updates other parameters.
constexpr bool sees_matrices(OptimizerKind o) {
  return o == OptimizerKind::muon || o == OptimizerKind::shampoo;
}

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 3e-4;                  // peak learning rate
  double beta1 = 0.9, beta2 = 0.95;  // adamw and lion, also with muon and shampoo
  double eps = 1e-8;                 // adamw, also with muon and shampoo
  double momentum = 0;               // sgd
  bool nesterov = false;             // sgd: Nesterov momentum
  double weight_decay = 0.1;         // decoupled; never applied to norms and biases
  // Name patterns (with * and ?) of further parameters without weight decay.
  std::vector<std::string> no_decay;
  double clip = 1;  // maximum gradient norm; 0 disables clipping
  // Settings of muon and shampoo (lib/matrix/matrix_rule.hpp).
  double matrix_momentum = 0.95;
  bool matrix_nesterov = true;
  MatrixScale matrix_scale = MatrixScale::jordan;
  HeadMatrices matrix_heads = HeadMatrices::together;
  MuonPolynomials muon_polynomials = MuonPolynomials::jordan;
  double shampoo_beta = 0.95, shampoo_eps = 1e-6;
  std::int64_t shampoo_every = 10;
  // With muon and shampoo, AdamW updates the parameters that are not matrices, and the matrices
  // that match these name patterns (updated_as_matrices). If absent, adamw_lr is `lr` and
  // adamw_weight_decay is `weight_decay`.
  std::vector<std::string> adamw_patterns;
  std::optional<double> adamw_lr{}, adamw_weight_decay{};

  bool operator==(const OptimizerConfig&) const = default;
};

struct PrecisionConfig {
  DType compute = DType::f32;  // type of activations and gathered weights: f32, bf16 or f64
  DType reduce = DType::f32;   // type in which gradients are sent
  bool tf32 = false;           // use tensor cores for f32 products
  ProductType products = ProductType::compute;  // type of the operands of linear layers
  // Name patterns (with * and ?) of weights whose products are not in fp8.
  std::vector<std::string> fp8_except;
  std::int64_t fp8_skip_first = 0, fp8_skip_last = 0;  // blocks whose products are not in fp8
  bool fp8_head = false;                               // the head's products are in fp8, too

  bool operator==(const PrecisionConfig&) const = default;
};

// Returns the weights whose products are in fp8 if `products` is fp8.
inline Fp8Weights fp8_weights(const PrecisionConfig& p) {
  return {p.fp8_except, p.fp8_skip_first, p.fp8_skip_last, p.fp8_head};
}

}  // namespace trireme
