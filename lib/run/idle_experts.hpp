#pragma once
// Experts that no token chooses: they cost memory and learn nothing.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lib/train/config.hpp"
#include "lib/train/routing.hpp"

namespace trireme {

class IdleExperts {
 public:
  static constexpr std::int64_t patience = 100;  // steps

  // What to warn of after this step: experts without a token for so many steps in a row, and which
  // key helps where that is the balance. Empty: nothing new.
  std::string after(const Routing&, Balance);

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> idle_;  // steps, by (layer, expert)
};

}  // namespace trireme
