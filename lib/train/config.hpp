#pragma once
// How a model is trained: [train], [optimizer] and [precision] of a deck.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/base/value_names.hpp"

namespace trireme {

// What keeps the experts of a mixture evenly loaded.
enum class Balance : std::uint8_t { none, bias, sample };
template <>
inline constexpr auto value_names<Balance> = named<Balance>("none", "bias", "sample");

// tokens: the mean loss of the tokens that are learnt; dpo: direct preference optimization, of
// pairs of documents (Rafailov et al. 2023); distill: what a fixed model makes of these tokens
// (Hinton et al. 2015).
enum class Objective : std::uint8_t { tokens, dpo, distill };
template <>
inline constexpr auto value_names<Objective> = named<Objective>("tokens", "dpo", "distill");

struct DistillConfig {
  std::string teacher;     // its checkpoint
  double temperature = 1;  // t: of both models' softmax(z / t)
  double weight = 0.5;     // w: the loss is 1 - w of that of tokens, w t^2 of the divergence

  bool operator==(const DistillConfig&) const = default;
};

struct TrainConfig {
  std::int64_t batch = 8;       // samples a step, over all ranks
  std::int64_t microbatch = 0;  // samples a program slot and data rank; 0: not decided yet
  std::int64_t steps = 0;       // length of the run; exactly one of steps
  std::int64_t tokens = 0;      // and tokens is above 0
  std::int64_t seed = 1;        // of initialisation, data order and dropout
  Objective objective = Objective::tokens;
  double dpo_beta = 0.1;
  std::string dpo_scores{};  // the file of a fixed model's scores; empty: adapters off
  Balance balance = Balance::none;
  double balance_rate = 0.001;   // bias: how far it moves a step (DeepSeek-V3)
  double balance_weight = 0.01;  // sample: of its loss, which is 1 for even loads
  double router_z = 0;           // of the mean square of a router's log sum exp
  std::int64_t max_skipped = 5;  // skipped steps in a row that stop the run

  bool operator==(const TrainConfig&) const = default;
};

// Steps of the whole run: `steps`, or the fewest whose batches of `context` tokens hold `tokens`.
constexpr std::int64_t total_steps(const TrainConfig& t, std::int64_t context) {
  const std::int64_t step_tokens = t.batch * context;
  return t.steps > 0 ? t.steps : (t.tokens + step_tokens - 1) / step_tokens;
}

enum class OptimizerKind : std::uint8_t { adamw, sgd, lion };
template <>
inline constexpr auto value_names<OptimizerKind> = named<OptimizerKind>("adamw", "sgd", "lion");

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 3e-4;                   // peak learning rate
  double beta1 = 0.9, beta2 = 0.95;   // adamw and lion
  double eps = 1e-8;                  // adamw
  double momentum = 0;                // sgd
  bool nesterov = false;              // sgd: the gradient where momentum leads to
  double weight_decay = 0.1;          // decoupled; never on norms and biases
  std::vector<std::string> no_decay;  // further parameters without decay, by name (* and ?)
  double clip = 1;                    // largest gradient norm; 0: no clipping

  bool operator==(const OptimizerConfig&) const = default;
};

struct PrecisionConfig {
  DType compute = DType::f32;  // activations and gathered weights: f32, bf16, f64
  DType reduce = DType::f32;   // gradients on the wire
  bool tf32 = false;           // tensor cores for f32 products

  bool operator==(const PrecisionConfig&) const = default;
};

}  // namespace trireme
