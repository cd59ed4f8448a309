#pragma once
// Configuration of how a model is distributed over ranks, and of which parameters are frozen in
// which steps: the deck sections [parallel], [zero] and [[freeze]].
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

// The pipeline schedule (lib/pipe/schedule.hpp).
enum class ScheduleKind : std::uint8_t { one_f_one_b, interleaved, zero_bubble, zbv };
template <>
inline constexpr auto value_names<ScheduleKind> = named<ScheduleKind>("1f1b", "interleaved",
                                                                      "zero-bubble", "zbv");

struct ParallelConfig {
  std::int64_t pipe = 1;    // number of pipeline stages
  std::int64_t data = 0;    // data-parallel ranks; 0 uses all ranks that pipe and seq leave
  std::int64_t seq = 1;     // sequence-parallel ranks
  std::int64_t expert = 1;  // ranks of data x seq that together hold all experts
  // Maximum token rows per round of expert computation. 0 means 1.25 times the number under an even
  // load.
  std::int64_t expert_tokens = 0;
  std::vector<std::int64_t> stage_layers;  // blocks in each virtual stage; empty balances by cost
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t chunks = 1;  // virtual stages per pipeline stage

  bool operator==(const ParallelConfig&) const = default;
};

// How often weights are gathered or gradients are reduced: for every micro-batch or once a step.
enum class ZeroCadence : std::uint8_t { microbatch, step };
template <>
inline constexpr auto value_names<ZeroCadence> = named<ZeroCadence>("microbatch", "step");

// Type in which weights are all-gathered for training. compute: their storage type. fp8: fp8 for
// weights whose products are in fp8, otherwise their storage type.
enum class GatherType : std::uint8_t { compute, fp8 };
template <>
inline constexpr auto value_names<GatherType> = named<GatherType>("compute", "fp8");

struct ZeroConfig {
  std::int64_t stage = 0;  // 0 shards nothing, 1 optimizer state, 2 gradients too, 3 weights too
  std::int64_t shard = 0;  // ranks that share one copy; 0 means all data x seq ranks
  ZeroCadence gather = ZeroCadence::microbatch;
  ZeroCadence reduce = ZeroCadence::microbatch;
  GatherType gather_type = GatherType::compute;
  std::int64_t prefetch = 1;  // maximum gathers in flight ahead of their use
  std::int64_t scatters = 1;  // maximum reduce-scatters in flight
  bool detect_freeze = true;  // compare the trainable mask at the start of each step

  bool operator==(const ZeroConfig&) const = default;
};

// How an optimizer that sees whole matrices divides the weights of q, k and v: into one matrix for
// all heads of each, or into one matrix for each head.
enum class HeadMatrices : std::uint8_t { together, each };
template <>
inline constexpr auto value_names<HeadMatrices> = named<HeadMatrices>("together", "each");

// Optimizer state of a parameter that resumes training: fresh state, or the state from before it
// was frozen.
enum class ThawMoments : std::uint8_t { fresh, keep };
template <>
inline constexpr auto value_names<ThawMoments> = named<ThawMoments>("fresh", "keep");

// A rule that freezes parameters in steps [from_step, to_step). The rule applies to parameters
// whose names match `pattern` (with wildcards * and ?).
struct FreezeRule {
  std::string pattern;
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;  // 0 means until the end of the run
  ThawMoments moments = ThawMoments::fresh;

  bool operator==(const FreezeRule&) const = default;
};

}  // namespace trireme
