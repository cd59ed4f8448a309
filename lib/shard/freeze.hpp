#pragma once
// The freeze schedule: which parameters the deck's rules freeze in which steps, and whether their
// optimizer state is kept. All functions are pure.
//
// If rules for a parameter overlap or are adjacent, the parameter is frozen from the first of their
// steps to the last. The rule that begins first decides whether the moments are kept. If several
// rules begin at that step, the last one in the deck decides.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// State of one parameter in one step.
struct FreezeState {
  bool trained = true;
  // If true, the parameter keeps the moments and update count from before this step. If false, a
  // frozen parameter drops them, and a trained parameter starts with fresh ones.
  bool resumes = true;
  bool operator==(const FreezeState&) const = default;
};

// Intervals of steps in which each parameter is frozen, derived from the deck's rules.
class FreezeSchedule {
 public:
  FreezeSchedule(std::span<const FreezeRule>, const ModelSpec&);

  // Returns the state of every parameter in `step`, indexed by ParamId.
  std::vector<FreezeState> at(std::int64_t step) const;
  // Returns the steps strictly between `after` and `end` at which some parameter freezes or resumes
  // training, in ascending order.
  std::vector<std::int64_t> borders(std::int64_t after, std::int64_t end) const;

 private:
  struct Span {
    std::int64_t begin, end;
    ThawMoments moments;
  };
  std::vector<std::vector<Span>> spans_;  // indexed by ParamId; ordered and disjoint
};

// Returns the log text about parameter counts in `step`, such as "2.10M parameters, all trained" or
// "2.10M parameters, 1.05M of them trained". The text ends with "at first" if a later step changes
// which parameters are trained. For a mixture of experts, the text includes the number of
// parameters active per token: "2.10M parameters (0.80M for a token), ...".
std::string parameters_text(const ModelSpec&, std::span<const FreezeRule>, std::int64_t step);

}  // namespace trireme
