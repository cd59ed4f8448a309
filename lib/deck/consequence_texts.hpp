#pragma once
// The consequences of changed keys, as sentences. Each of the functions *_text returns an empty
// text if a change has no consequence.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/consequences.hpp"

namespace trireme {

// The changed keys of one row of the table of consequences, and the run.
struct Changed {
  const ContinuedRun& run;
  Beginning beginning;
  std::vector<KeyChange> keys;

  std::int64_t next_step() const { return run.meta.step + 1; }
  bool has(std::string_view key) const {
    return std::ranges::find(keys, key, &KeyChange::key) != keys.end();
  }
};

// Returns the names of the keys, each once.
std::string names_of_keys(const std::vector<KeyChange>&);

// Return the causes of a consequence: the changed keys that contribute to it, and "validation data"
// for sets whose tokens changed although their keys did not.
std::string rate_causes(const Changed&);
std::string evaluations_causes(const Changed&);

std::string rate_text(const Changed&);
std::string batch_text(const Changed&);
std::string context_text(const Changed&);
std::string seed_text(const Changed&);
std::string order_text(const Changed&);
std::string phases_text(const Changed&);
std::string cut_text(const Changed&);
std::string attention_text(const Changed&);
std::string masks_text(const Changed&);
std::string evaluations_text(const Changed&);
std::string betas_text(const Changed&);
std::string decay_text(const Changed&);
std::string clip_text(const Changed&);
std::string adamw_rate_text(const Changed&);
std::string adamw_decay_text(const Changed&);
std::string freeze_text(const Changed&);
std::string skip_text(const Changed&);
std::string skip_steps_text(const Changed&);
std::string rounding_text(const Changed&);

}  // namespace trireme
