#pragma once
// The freeze schedule: which parameters the deck's rules freeze in which steps, and whether their
// optimizer state survives. All functions are pure.
//
// If rules overlap or follow each other without a gap, the parameter is frozen from the first of
// their steps to the last. The rule that froze the parameter decides whether its moments are kept.
// If several rules begin at that step, the last one in the deck decides.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// The state of one parameter in one step.
struct FreezeState {
  bool trained = true;
  // True keeps the moments and update count from before this step. False drops them if the
  // parameter is frozen, and starts with fresh ones if the parameter is trained.
  bool resumes = true;
  bool operator==(const FreezeState&) const = default;
};

// Spans of steps in which each parameter is frozen, derived from the deck's rules.
class FreezeSchedule {
 public:
  FreezeSchedule(std::span<const FreezeRule>, const ModelSpec&);

  // Returns the state of every parameter in `step`, indexed by ParamId.
  std::vector<FreezeState> at(std::int64_t step) const;
  // Returns in order the steps strictly between `after` and `end` at which some parameter freezes
  // or thaws.
  std::vector<std::int64_t> borders(std::int64_t after, std::int64_t end) const;

 private:
  struct Span {
    std::int64_t begin, end;
    ThawMoments moments;
  };
  std::vector<std::vector<Span>> spans_;  // indexed by ParamId; ordered and disjoint
};

// Returns the log text about parameter counts, such as "2.10M parameters, all trained" or "2.10M
// parameters, 1.05M of them trained" in `step`. The text ends with "at first" if a later step
// changes which parameters are trained. For a mixture of experts it includes the parameters active
// per token: "2.10M parameters (0.80M for a token), ...".
std::string parameters_text(const ModelSpec&, std::span<const FreezeRule>, std::int64_t step);

}  // namespace trireme
