#pragma once
// Timelines of a pipeline: when each stage runs each instruction, and how long it is idle. They are
// computed from programs and costs; messages take no time and sends never wait. The functions are
// pure.
#include <span>
#include <string>
#include <vector>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// Costs of one micro-batch on one virtual stage, in seconds or any other unit. They must be
// positive.
struct StageCost {
  double forward = 1, backward = 2;
  double weights = 1;  // part of `backward` that weight gradients take, if they run separately
};

// The time during which a stage runs one instruction.
struct Span {
  Instruction what;  // an instruction that computes
  double begin, end;
};

// The spans of all stages.
struct Timeline {
  std::vector<std::vector<Span>> stages;  // by stage, in order of time
  double end = 0;                         // end of the last span
};

// Returns the timeline for one program per stage and one cost per virtual stage. Throws Error if
// the programs do not finish.
Timeline make_timeline(const Pipeline&, std::span<const Program>, std::span<const StageCost>);

// Returns the idle fraction of all stages' time. With M micro-batches and S stages of equal cost,
// it is (S-1) / (M+S-1) for 1F1B.
double bubble(const Timeline&);

// Returns a drawing with one row for each stage and a legend. Lines have at most `columns`
// characters, which must be at least 70. If the timeline is longer, it is cut and a note says so.
std::string timeline_text(const Timeline&, int columns = 100);

}  // namespace trireme
