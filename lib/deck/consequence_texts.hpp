#pragma once
// The consequences of changed keys, as sentences. Each function returns an empty text if a change
// has no consequence.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/consequences.hpp"

namespace trireme {

// The keys of a row that changed, and the run.
struct Changed {
  const ContinuedRun& run;
  Beginning beginning;
  std::vector<KeyChange> keys;

  std::int64_t next_step() const { return run.meta.step + 1; }
  bool has(std::string_view key) const {
    return std::ranges::find(keys, key, &KeyChange::key) != keys.end();
  }
};

std::string rate_text(Changed&);
std::string batch_text(Changed&);
std::string context_text(Changed&);
std::string seed_text(Changed&);
std::string order_text(Changed&);
std::string phases_text(Changed&);
std::string cut_text(Changed&);
std::string attention_text(Changed&);
std::string masks_text(Changed&);
std::string evaluations_text(Changed&);
std::string betas_text(Changed&);
std::string decay_text(Changed&);
std::string clip_text(Changed&);
std::string freeze_text(Changed&);
std::string skip_text(Changed&);
std::string rounding_text(Changed&);

}  // namespace trireme
