#pragma once
// Timelines of a pipeline: when each stage runs each instruction, and how long it is idle.
// Timelines are computed from programs and costs, under the assumption that messages take no time
// and sends never block. The functions are pure.
#include <span>
#include <string>
#include <vector>

#include "lib/pipe/pipeline.hpp"

namespace trireme {

// Costs of one micro-batch on one virtual stage, in seconds or any other unit. All costs must be
// positive.
struct StageCost {
  double forward = 1, backward = 2;
  double weights = 1;  // part of `backward` that weight gradients take, if they run separately
};

// Time interval in which a stage runs one instruction.
struct Span {
  Instruction what;  // an instruction that computes
  double begin, end;
};

// The spans of all stages in one step.
struct Timeline {
  std::vector<std::vector<Span>> stages;  // by stage, in order of time
  double end = 0;                         // end of the last span
};

// Returns the timeline for one program per stage and one cost per virtual stage. Throws Error if
// the programs deadlock.
Timeline make_timeline(const Pipeline&, std::span<const Program>, std::span<const StageCost>);

// Returns the fraction of all stages' time that is idle. For 1F1B with M micro-batches and S stages
// of equal cost, the fraction is (S-1) / (M+S-1).
double bubble(const Timeline&);

// Returns a text drawing with one row for each stage, and a legend. Lines have at most `columns`
// characters, and `columns` must be at least 70. A timeline that is too long is cut, with a note.
std::string timeline_text(const Timeline&, int columns = 100);

}  // namespace trireme
