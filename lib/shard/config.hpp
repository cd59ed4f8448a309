#pragma once
// How a model is spread over ranks and what is trained when: [parallel], [zero] and [[freeze]].
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

// The order of a pipeline's work (lib/pipe/schedule.hpp).
enum class ScheduleKind : std::uint8_t { one_f_one_b, interleaved, zero_bubble, zbv };
template <>
inline constexpr auto value_names<ScheduleKind> = named<ScheduleKind>("1f1b", "interleaved",
                                                                      "zero-bubble", "zbv");

struct ParallelConfig {
  std::int64_t pipe = 1;                   // pipeline stages
  std::int64_t data = 0;                   // data ranks; 0: what pipe and seq leave of the ranks
  std::int64_t seq = 1;                    // sequence ranks (Ulysses)
  std::int64_t expert = 1;                 // ranks of data x seq that hold all experts
  std::int64_t expert_tokens = 0;          // rows of a round; 0: 1.25 times an even load
  std::vector<std::int64_t> stage_layers;  // blocks of each virtual stage; empty: chosen by cost
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t chunks = 1;  // that each stage's layers are divided into

  bool operator==(const ParallelConfig&) const = default;
};

// How often weights are gathered and gradients reduced.
enum class ZeroCadence : std::uint8_t { microbatch, step };
template <>
inline constexpr auto value_names<ZeroCadence> = named<ZeroCadence>("microbatch", "step");

struct ZeroConfig {
  std::int64_t stage = 0;  // 0 replicated, 1 optimizer, 2 and gradients, 3 and weights sharded
  std::int64_t shard = 0;  // ranks that share one copy; 0: all of data x seq
  ZeroCadence gather = ZeroCadence::microbatch;
  ZeroCadence reduce = ZeroCadence::microbatch;
  std::int64_t prefetch = 1;  // gathers in flight ahead of their use
  std::int64_t scatters = 1;  // reduce-scatters in flight
  bool detect_freeze = true;  // compare the trainable mask at each step start

  bool operator==(const ZeroConfig&) const = default;
};

// What becomes of the optimizer's arrays when a frozen segment thaws.
enum class ThawMoments : std::uint8_t { fresh, keep };
template <>
inline constexpr auto value_names<ThawMoments> = named<ThawMoments>("fresh", "keep");

// Parameters whose names match `pattern` (* and ?) are frozen in steps [from_step, to_step).
struct FreezeRule {
  std::string pattern;
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;  // 0: to the end of the run
  ThawMoments moments = ThawMoments::fresh;

  bool operator==(const FreezeRule&) const = default;
};

}  // namespace trireme
