#pragma once
// Configuration of a run: the deck sections [schedule], [evaluate] and [run].
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/io/best_evaluations.hpp"

namespace trireme {

// The shape of the learning rate schedule (schedule.hpp).
enum class ScheduleShape : std::uint8_t { cosine, linear, constant, wsd };
template <>
inline constexpr auto value_names<ScheduleShape> = named<ScheduleShape>("cosine", "linear",
                                                                        "constant", "wsd");

struct ScheduleConfig {
  ScheduleShape shape = ScheduleShape::cosine;
  std::int64_t warmup_steps = 0;
  double min_lr = 0;  // learning rate at the end of the decay
  // Length of the decay in steps. 0 means all steps after warmup (cosine, linear) or the last tenth
  // of the run (wsd).
  std::int64_t decay_steps = 0;
  // The lengths above in tokens. If one of them or `decay_end_tokens` is set, the whole schedule
  // counts tokens instead of steps.
  std::int64_t warmup_tokens = 0, decay_tokens = 0;
  // For wsd: points before the end of the run at which a decay ends, in increasing order.
  std::vector<std::int64_t> decay_end_steps = {}, decay_end_tokens = {};

  bool operator==(const ScheduleConfig&) const = default;
};

struct EvaluateConfig {
  std::int64_t every_steps = 500;  // steps between evaluations; 0 disables them during training
  // Number of batches of train.batch samples to evaluate. 0 means all validation samples.
  std::int64_t batches = 20;
  // Metric and validation set that rank evaluations. If `best_set` is empty, ranking_of() chooses
  // the set.
  BestBy best_by = BestBy::loss;
  std::string best_set;
  // Number of evaluations without a new best one after which the run ends. 0 disables this.
  std::int64_t patience = 0;
  bool ema = false;           // use the averaged weights (train.ema)
  std::string sample_prompt;  // prompt of the generated samples; empty generates none
  std::int64_t sample_tokens = 64;
  std::int64_t sample_every = 0;    // steps between generated samples; 0 means every_steps
  double sample_temperature = 0.8;  // 0 always picks the most likely token

  bool operator==(const EvaluateConfig&) const = default;
};

// Guarantee of bit-identical results. `fast` gives none. `repeatable` guarantees equal bits for
// runs on the same grid, number of threads and kind of machine. `invariant` guarantees equal bits
// for runs on any grid.
enum class Exactness : std::uint8_t { fast, repeatable, invariant };
template <>
inline constexpr auto value_names<Exactness> = named<Exactness>("fast", "repeatable", "invariant");
// What a run does if two computations of the same step give different results.
enum class OnFault : std::uint8_t { stop, proceed };
template <>
inline constexpr auto value_names<OnFault> = named<OnFault>("stop", "continue");

struct RunConfig {
  std::string backend = "auto";  // auto, host, ref, fenced or cuda
  // Threads of this rank. 0 takes the number from OMP_NUM_THREADS, Slurm or the affinity mask.
  std::int64_t threads = 0;
  Exactness exactness = Exactness::fast;
  std::int64_t exact_chunk = 256;  // tokens whose gradients exactness = "invariant" sums as one
  double time_limit = 0;           // seconds; 0 means no limit
  double signal_grace = 20;        // seconds from a signal to its checkpoint
  double hang_timeout = 1800;      // seconds that a rank may wait for others; 0 means forever
  std::int64_t log_every = 1;      // steps between log lines; 0 disables them
  std::vector<std::int64_t> trace_steps;  // first and last step to trace; empty traces none
  std::vector<std::int64_t> trace_ranks;  // ranks to trace; empty traces all
  std::int64_t digest_every = 0;          // steps between digests of every tensor
  std::int64_t replay_every = 0;          // steps between steps that are computed twice
  OnFault on_fault = OnFault::stop;       // what to do if the two computations differ
  bool tensorboard = false;               // write event files in addition to history.csv
  double peak_tflops = 0;                 // peak rate of a rank; 0 takes it from `machine`
  std::string machine;                    // path of a machine file; empty means none
  bool debug = false;                     // poison freed memory and check labels of collectives
  bool guards = false;                    // give each block of memory its own pages between guards
  bool share_gpu = false;                 // allow several ranks on one GPU
  double device_headroom = 1;             // GiB of GPU memory to leave to others

  std::size_t headroom_bytes() const { return static_cast<std::size_t>(device_headroom * 0x1p30); }
  bool operator==(const RunConfig&) const = default;
};

}  // namespace trireme
