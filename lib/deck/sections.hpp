#pragma once
// Shared by the table's files: bounds of many keys, and one function for each section.

#include "lib/base/limits.hpp"
#include "lib/deck/deck.hpp"
#include "lib/keys/rows.hpp"

namespace trireme {

inline constexpr double int32_most = 2147483647;  // ids, extents
inline constexpr double step_most = double{most_counted};
inline constexpr double row_most = 1 << 24;  // channels, samples: products stay below 2^63

KeySection model_section();
KeySection adapter_section();
KeySection distill_section();
KeySection data_section();
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
