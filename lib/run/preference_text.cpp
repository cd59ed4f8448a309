#include "lib/run/preference_text.hpp"

#include <fmt/format.h>

namespace trireme {

PreferenceColumns columns_of(const PreferenceSums& sums) {
  return {.margin = sums.margin(),
          .accuracy = sums.accuracy(),
          .reward_chosen = sums.reward_chosen(),
          .reward_rejected = sums.reward_rejected(),
          .z0 = sums.z};
}

std::string text_of(const PreferenceColumns& p) {
  return fmt::format("margin {:.4f} accuracy {:.3f} rewards {:.4f} (chosen) and {:.4f} (rejected)",
                     p.margin, p.accuracy, p.reward_chosen, p.reward_rejected) +
         (p.z0 ? fmt::format(" z0 {:.4f}", *p.z0) : "");
}

}  // namespace trireme
