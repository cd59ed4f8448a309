#pragma once
// How a model is trained and how a run behaves: [train], [optimizer], [schedule], [precision],
// [evaluate] and [run] of a deck.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/dtype.hpp"

namespace trireme {

struct TrainConfig {
  std::int64_t batch = 8;        // samples a step, over all ranks
  std::int64_t microbatch = 0;   // samples a program slot and data rank; 0: not decided yet
  std::int64_t steps = 0;        // length of the run; exactly one of steps
  std::int64_t tokens = 0;       // and tokens is above 0
  std::int64_t seed = 1;         // of initialisation, data order and dropout
  std::int64_t max_skipped = 5;  // non-finite steps in a row that stop the run

  bool operator==(const TrainConfig&) const = default;
};

// Steps of the whole run: `steps`, or the fewest whose batches of `context` tokens hold `tokens`.
constexpr std::int64_t total_steps(const TrainConfig& t, std::int64_t context) {
  const std::int64_t step_tokens = t.batch * context;
  return t.steps > 0 ? t.steps : (t.tokens + step_tokens - 1) / step_tokens;
}

enum class OptimizerKind : std::uint8_t { adamw, sgd };

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 3e-4;  // peak learning rate
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;          // decoupled; never on norms and biases
  std::vector<std::string> no_decay;  // further parameters without decay, by name (* and ?)
  double clip = 1;                    // largest gradient norm; 0: no clipping

  bool operator==(const OptimizerConfig&) const = default;
};

enum class ScheduleShape : std::uint8_t { cosine, linear, constant, wsd };

struct ScheduleConfig {
  ScheduleShape shape = ScheduleShape::cosine;
  std::int64_t warmup_steps = 0;
  double min_lr = 0;             // where the decay ends
  std::int64_t decay_steps = 0;  // 0: all after warm-up (cosine, linear), the last tenth (wsd)

  bool operator==(const ScheduleConfig&) const = default;
};

struct PrecisionConfig {
  DType compute = DType::f32;  // activations and gathered weights: f32, bf16, f64
  DType reduce = DType::f32;   // gradients on the wire
  bool tf32 = false;           // tensor cores for f32 products

  bool operator==(const PrecisionConfig&) const = default;
};

struct EvaluateConfig {
  std::int64_t every_steps = 500;  // 0: never while training
  std::int64_t batches = 20;       // of train.batch samples each; 0: all held-out samples

  bool operator==(const EvaluateConfig&) const = default;
};

enum class Exactness : std::uint8_t { fast, repeatable, invariant };

struct RunConfig {
  std::string backend = "auto";  // auto, host, ref, fenced, cuda
  std::int64_t threads = 0;      // of this rank; 0: OMP_NUM_THREADS, Slurm's or the affinity mask
  Exactness exactness = Exactness::fast;
  std::int64_t exact_chunk = 256;         // tokens of an invariant sum's leaf
  double time_limit = 0;                  // seconds; 0: none
  double signal_grace = 60;               // seconds from a signal to its checkpoint
  double hang_timeout = 0;                // seconds a collective may wait; 0: forever
  std::int64_t log_every = 1;             // steps between log lines; 0: none
  std::vector<std::int64_t> trace_steps;  // first and last step traced; empty: none
  std::vector<std::int64_t> trace_ranks;  // ranks traced; empty: all
  std::int64_t digest_every = 0;          // steps between digests of every tensor
  std::int64_t replay_every = 0;          // steps between steps that run twice
  bool debug = false;                     // poison freed memory, check labels of collectives
  bool share_gpu = false;                 // several ranks on one GPU
  bool cuda_graph = false;                // a microbatch's forward and its backward as a graph each

  bool operator==(const RunConfig&) const = default;
};

}  // namespace trireme
