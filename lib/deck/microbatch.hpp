#pragma once
// Determines the micro-batch size if the deck does not set it.
#include <cstdint>

#include "lib/deck/deck.hpp"

namespace trireme {

// Sets train.microbatch if the deck does not set it. Does nothing if parallel.data is unknown or
// does not divide the batch.
void decide_microbatch(Deck&);
// Returns the default number of samples in a micro-batch. Without a pipeline, the micro-batch
// contains all samples of a data-parallel rank. Otherwise it is the largest one that gives at least
// 2 * pipe micro-batches per step, so that the pipeline bubble remains small. The micro-batch
// divides `common`, the greatest common divisor of a data-parallel rank's samples in all steps
// (train.batch_ramp).
std::int64_t default_microbatch(std::int64_t samples_per_data_rank, std::int64_t common,
                                std::int64_t pipe, ScheduleKind = ScheduleKind::one_f_one_b);

}  // namespace trireme
