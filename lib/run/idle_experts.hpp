#pragma once
// Detects idle experts, which no token chooses. Idle experts use memory but are not trained.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lib/train/config.hpp"
#include "lib/train/routing.hpp"

namespace trireme {

// Counts for how many steps each expert has been idle.
class IdleExperts {
 public:
  static constexpr std::int64_t patience = 100;  // steps after which an idle expert is reported

  // Returns a warning if an expert has now received no token for `patience` consecutive steps. The
  // warning names the deck key to change for this Balance. Returns an empty string if there is no
  // new warning. Call the function after every step.
  std::string after(const Routing&, Balance);

 private:
  // Number of consecutive idle steps, by (layer, expert).
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> idle_;
};

}  // namespace trireme
