#pragma once
// What the deck's rules freeze in which steps, and what becomes of the optimizer's state. Pure.
//
// Where rules overlap, or follow each other without a gap, a parameter is frozen from the first of
// these steps to the last; the rule that froze it (the last in the deck of those that begin there)
// says what becomes of its moments.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// How a parameter stands in a step.
struct FreezeState {
  bool trained = true;
  // Do moments and count that it had before this step go on? Else those of a frozen one are
  // dropped, and one that is trained starts with fresh ones.
  bool resumes = true;
  bool operator==(const FreezeState&) const = default;
};

class FreezeSchedule {
 public:
  FreezeSchedule(std::span<const FreezeRule>, const ModelSpec&);

  std::vector<FreezeState> at(std::int64_t step) const;  // by ParamId
  // Steps inside (after, end) that do not train what the one before trains, in order.
  std::vector<std::int64_t> borders(std::int64_t after, std::int64_t end) const;

 private:
  struct Span {
    std::int64_t begin, end;
    ThawMoments moments;
  };
  std::vector<std::vector<Span>> spans_;  // by ParamId, in order, apart
};

// "2.10M parameters, all trained" or, from that step on, "... 1.05M of them trained"; "at first"
// where a later step trains others; of a mixture "2.10M parameters (0.80M for a token), ...".
std::string parameters_text(const ModelSpec&, std::span<const FreezeRule>, std::int64_t step);

}  // namespace trireme
