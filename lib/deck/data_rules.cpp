#include <algorithm>

#include "lib/data/phases.hpp"
#include "lib/deck/rules.hpp"
#include "lib/keys/key.hpp"

namespace trireme {
namespace {

class DataRules : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    data();
    for (std::size_t i = 0; i < deck_.data.phases.size(); ++i) phase(i);
    if (!deck_.data.phases.empty()) together();
  }

 private:
  void data() {
    const DataConfig& d = deck_.data;
    rule(!d.path.empty(), {"data.path"},
         "data.path is missing; name the token files to train on (trireme tokenize makes them)");
    rule(d.weights.empty() || d.weights.size() == d.path.size(), {"data.weights", "data.path"},
         "data.weights has {} entries, but data.path has {}; give one weight per file",
         d.weights.size(), d.path.size());
    rule(d.loss_weights.empty() || d.loss_weights.size() == d.path.size(),
         {"data.loss_weights", "data.path"},
         "data.loss_weights has {} entries, but data.path has {}; give one weight per file",
         d.loss_weights.size(), d.path.size());
    const auto twice = std::ranges::find_first_of(d.validation_files, d.path);
    rule(twice == d.validation_files.end(), {"data.validation", "data.path"},
         "data.validation contains a file that is also in data.path; name another file, or give a "
         "fraction such as 0.01 to hold out the end of each training file");
    rule(d.packing == Packing::documents || d.long_documents == LongDocuments::cut,
         {"data.long_documents", "data.packing"},
         "data.long_documents = \"{}\" needs data.packing = \"documents\": set that, or remove "
         "data.long_documents",
         name_of(d.long_documents));
    rule(d.packing == Packing::windows || d.attention == AttentionSpan::document,
         {"data.packing", "data.attention"},
         "data.packing = \"documents\" needs data.attention = \"document\": set both");
  }

  static bool has_duplicates(std::vector<std::string> names) {
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) != names.end();
  }

  static std::string key(const char* member, std::size_t i) {
    return key_in_row(fmt::format("phase.{}", member), i);
  }

  void phase(std::size_t i) {
    const PhaseConfig& p = deck_.data.phases[i];
    rule((p.from_step > 0) != (p.from_tokens > 0), {key("from_step", i), key("from_tokens", i)},
         "[[phase]] section {} must say when it begins: give either from_step or from_tokens",
         i + 1);
    // Prevents overflow, as for train.steps.
    constexpr std::int64_t most = std::int64_t{1} << 62;
    rule(p.from_step <= most / deck_.train.batch, {key("from_step", i)},
         "from_step = {} of [[phase]] section {} means more than 2^62 samples; lower it",
         p.from_step, i + 1);
    rule(!p.path.empty() || !p.weights.empty(), {key("path", i), key("weights", i)},
         "[[phase]] section {} changes nothing; give path, weights or both", i + 1);
    const auto resolved = resolved_phase(deck_.data, i + 1);
    rule(p.weights.empty() || p.weights.size() == resolved.path.size(),
         {key("weights", i), key("path", i)},
         "weights of [[phase]] section {} has {} entries, but the phase has {} files; give one "
         "weight per file",
         i + 1, p.weights.size(), resolved.path.size());
    rule(resolved.path.size() < 2 || !resolved.weights.empty(), {key("path", i)},
         "[[phase]] section {} has {} files but no weights; give one weight per file", i + 1,
         resolved.path.size());
    rule(!has_duplicates(p.path), {key("path", i)},
         "[[phase]] section {} contains a file twice; name it once, and raise its weight", i + 1);
    rule(std::ranges::find_first_of(deck_.data.validation_files, p.path) ==
             deck_.data.validation_files.end(),
         {key("path", i), "data.validation"},
         "[[phase]] section {} contains a file that is also in data.validation; name another file",
         i + 1);
    if (i == 0) return;
    const PhaseConfig& before = deck_.data.phases[i - 1];
    rule((p.from_step > 0) == (before.from_step > 0), {key("from_step", i), key("from_tokens", i)},
         "[[phase]] sections {} and {} begin at a step and after a number of tokens; use from_step "
         "or from_tokens in all of them",
         i, i + 1);
    rule(p.from_step > before.from_step || p.from_tokens > before.from_tokens,
         {key("from_step", i), key("from_tokens", i)},
         "[[phase]] section {} must begin after section {}; put them in order", i + 1, i);
  }

  void together() {
    const DataConfig& d = deck_.data;
    rule(d.path.size() < 2 || !d.weights.empty(), {"data.weights", "phase.path"},
         "[[phase]] sections need data.weights, because data.path has {} files: without weights, "
         "their samples are shuffled together, and a phase cannot continue each file where it "
         "stopped. Give one weight per file, such as its number of tokens (trireme inspect)",
         d.path.size());
    rule(
        !has_duplicates(d.path), {"data.path"},
        "data.path contains a file twice, which [[phase]] sections do not allow; name it once, and "
        "raise its weight");
    rule(deck_.train.epochs == 0, {"train.epochs"},
         "train.epochs has no meaning with [[phase]] sections; give train.steps or train.tokens");
  }
};

}  // namespace

void data_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  DataRules(deck, problems).all();
}

}  // namespace trireme
