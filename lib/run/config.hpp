#pragma once
// How a run behaves: [schedule], [evaluate] and [run] of a deck.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

enum class ScheduleShape : std::uint8_t { cosine, linear, constant, wsd };
template <>
inline constexpr auto value_names<ScheduleShape> = named<ScheduleShape>("cosine", "linear",
                                                                        "constant", "wsd");

struct ScheduleConfig {
  ScheduleShape shape = ScheduleShape::cosine;
  std::int64_t warmup_steps = 0;
  double min_lr = 0;             // where the decay ends
  std::int64_t decay_steps = 0;  // 0: all after warm-up (cosine, linear), the last tenth (wsd)

  bool operator==(const ScheduleConfig&) const = default;
};

struct EvaluateConfig {
  std::int64_t every_steps = 500;  // 0: never while training
  std::int64_t batches = 20;       // of train.batch samples each; 0: all held-out samples
  std::string sample_prompt;       // what a text of the model begins with; empty: none is made
  std::int64_t sample_tokens = 64;
  std::int64_t sample_every = 0;    // steps between texts; 0: as every_steps
  double sample_temperature = 0.8;  // 0: always the most likely token

  bool operator==(const EvaluateConfig&) const = default;
};

enum class Exactness : std::uint8_t { fast, repeatable, invariant };
template <>
inline constexpr auto value_names<Exactness> = named<Exactness>("fast", "repeatable", "invariant");
enum class OnFault : std::uint8_t { stop, proceed };
template <>
inline constexpr auto value_names<OnFault> = named<OnFault>("stop", "continue");

struct RunConfig {
  std::string backend = "auto";  // auto, host, ref, fenced, cuda
  std::int64_t threads = 0;      // of this rank; 0: OMP_NUM_THREADS, Slurm's or the affinity mask
  Exactness exactness = Exactness::fast;
  std::int64_t exact_chunk = 256;         // tokens that exactness = "invariant" sums as one
  double time_limit = 0;                  // seconds; 0: none
  double signal_grace = 20;               // seconds from a signal to its checkpoint
  double hang_timeout = 1800;             // seconds a rank may wait for others; 0: forever
  std::int64_t log_every = 1;             // steps between log lines; 0: none
  std::vector<std::int64_t> trace_steps;  // first and last step traced; empty: none
  std::vector<std::int64_t> trace_ranks;  // ranks traced; empty: all
  std::int64_t digest_every = 0;          // steps between digests of every tensor
  std::int64_t replay_every = 0;          // steps between steps that run twice
  OnFault on_fault = OnFault::stop;       // what such a step's fault does to the run
  bool tensorboard = false;               // event files as well as history.csv
  double peak_tflops = 0;                 // a rank's machine can do; 0: as `machine` says
  std::string machine;                    // a machine file; empty: none
  bool debug = false;                     // poison freed memory, check labels of collectives
  bool guards = false;                    // blocks of memory of their own, with guards
  bool share_gpu = false;                 // several ranks on one GPU
  double device_headroom = 1;             // GiB of a GPU's memory that are left to others

  std::size_t headroom_bytes() const { return static_cast<std::size_t>(device_headroom * 0x1p30); }
  bool operator==(const RunConfig&) const = default;
};

}  // namespace trireme
