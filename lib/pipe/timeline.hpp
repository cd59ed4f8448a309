#pragma once
// When each stage runs what, and how long it idles: programs and costs -> spans of time -> text.
// Messages take no time and sends never wait. Pure.
#include <span>
#include <string>
#include <vector>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// Of one microbatch on one stage, in seconds or any other unit; above 0.
struct StageCost {
  double forward = 1, backward = 2;
  double weights = 1;  // what of backward weight gradients take, where they come by themselves
};

struct Span {
  Instruction what;  // one that computes
  double begin, end;
};

struct Timeline {
  std::vector<std::vector<Span>> stages;  // in time order
  double end = 0;                         // of the last span
};

// One program a stage and one cost a virtual stage. Throws Error when the programs do not finish.
Timeline make_timeline(const Pipeline&, std::span<const Program>, std::span<const StageCost>);

// The fraction of all stages' time that is idle: (S-1) / (M+S-1) for S stages of equal cost and M
// microbatches.
double bubble(const Timeline&);

// A row for each stage and a legend, lines of at most `columns` characters (70 or more): what does
// not fit is cut with a note.
std::string timeline_text(const Timeline&, int columns = 100);

}  // namespace trireme
