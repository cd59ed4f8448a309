#pragma once
// Limits that many keys share, and functions that return the keys of each section.

#include "lib/base/limits.hpp"
#include "lib/deck/deck.hpp"
#include "lib/keys/rows.hpp"

namespace trireme {

// Largest value of ids and extents.
inline constexpr double int32_most = 2147483647;
inline constexpr double step_most = double{most_counted};
// Maximum number of channels or samples. It keeps products of sizes below 2^63.
inline constexpr double row_most = 1 << 24;

KeySection model_section();
KeySection adapter_section();
KeySection adapter_rank_section();
KeySection distill_section();
KeySection data_section();
KeySection phase_section();
KeySection validation_section();
KeySection train_section();
KeySection optimizer_section();
KeySection schedule_section();
KeySection precision_section();
KeySection parallel_section();
KeySection zero_section();
KeySection freeze_section();
KeySection evaluate_section();
KeySection checkpoint_section();
KeySection run_section();

}  // namespace trireme
