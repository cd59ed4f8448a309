#pragma once
// Detects idle experts, which no token chooses. They use memory and learn nothing.
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

  // Returns a warning if an expert has now received no token for `patience` steps in a row. The
  // warning names the key that helps with this kind of balance. Returns an empty string if there is
  // nothing new. Call it after every step.
  std::string after(const Routing&, Balance);

 private:
  // Idle steps, by (layer, expert).
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> idle_;
};

}  // namespace trireme
