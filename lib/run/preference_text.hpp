#pragma once
// Formats the results of preference optimization for tables and the log.
#include <string>

#include "lib/io/run_tables.hpp"
#include "lib/train/preference.hpp"

namespace trireme {

// Returns the means over the pairs or labeled answers in `sums`. A mean of nothing is NaN.
PreferenceColumns columns_of(const PreferenceSums& sums);
// Returns text such as "margin 0.1032 accuracy 0.750 rewards 0.0612 and -0.0420".
std::string text_of(const PreferenceColumns&);

}  // namespace trireme
