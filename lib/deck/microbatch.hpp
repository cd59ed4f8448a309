#pragma once
// How many samples a microbatch has where the deck does not say. Pure.
#include <cstdint>

#include "lib/deck/deck.hpp"

namespace trireme {

// Gives train.microbatch a value where the deck has none, parallel.data is known and the batch can
// be dealt out. With pipe > 1: the largest that leaves 2*pipe of them, so that the pipeline's
// bubble stays small.
void decide_microbatch(Deck&);
std::int64_t default_microbatch(std::int64_t samples_per_data_rank, std::int64_t pipe,
                                ScheduleKind = ScheduleKind::one_f_one_b);

}  // namespace trireme
