#pragma once
// What tables and the log say of pairs of documents.
#include <string>

#include "lib/io/run_tables.hpp"
#include "lib/train/preference.hpp"

namespace trireme {

// Means over the pairs of `sums`; NaN where there are none.
PreferenceColumns columns_of(const PreferenceSums& sums);
// "margin 0.1032 accuracy 0.750 rewards 0.0612 and -0.0420"
std::string text_of(const PreferenceColumns&);

}  // namespace trireme
