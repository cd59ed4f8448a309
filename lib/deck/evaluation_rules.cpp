#include <fmt/ranges.h>

#include <algorithm>

#include "lib/deck/rules.hpp"
#include "lib/io/run_tables.hpp"
#include "lib/keys/key.hpp"
#include "lib/train/objective.hpp"

namespace trireme {
namespace {

class EvaluationRules : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    validation_sets();
    best_evaluations();
    rule(!deck_.evaluate.ema || deck_.train.ema > 0, {"evaluate.ema", "train.ema"},
         "evaluate.ema = true needs averaged weights: set train.ema, such as 0.999");
  }

 private:
  void validation_sets() {
    const auto& sets = deck_.data.sets;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const auto key = [&](const char* member) {
        return key_in_row(fmt::format("validation.{}", member), i);
      };
      const auto& [name, path, weight] = sets[i];
      rule(is_set_name(name) && name != "auto", {key("name")},
           "the name of [[validation]] set {} is \"{}\"; give a name of at most 100 letters, "
           "digits, _ and -, such as \"code\"",
           i + 1, name);
      const auto same = std::ranges::find(sets, name, &ValidationSet::name);
      rule(same == sets.begin() + static_cast<std::ptrdiff_t>(i) || name.empty(), {key("name")},
           "two [[validation]] sets have the name \"{}\"; give each set its own name", name);
      rule(name != mean_set, {key("name")},
           "a [[validation]] set has the name \"{}\", which is reserved for the weighted mean of "
           "the sets (validation.weight); give it another name",
           name);
      rule(!path.empty(), {key("path")},
           "the [[validation]] set \"{}\" has no path; name its token files", name);
      const auto twice = std::ranges::find_first_of(path, deck_.data.path);
      rule(twice == path.end(), {key("path"), "data.path"},
           "the [[validation]] set \"{}\" contains a file that is also in data.path; name another "
           "file",
           name);
    }
  }

  // Rules for keys that compare evaluations with each other.
  void best_evaluations() {
    const EvaluateConfig& e = deck_.evaluate;
    const CheckpointConfig& c = deck_.checkpoint;
    const bool has_sets = deck_.data.has_validation();
    for (const auto& [key, is_set] : {std::pair("checkpoint.keep_best", c.keep_best > 0),
                                      std::pair("evaluate.patience", e.patience > 0)})
      rule(has_sets || !is_set, {key},
           "{0} compares evaluations, but the deck has no validation data: set data.validation, "
           "add a [[validation]] section, or remove {0}",
           key);
    const auto& sets = deck_.data.sets;
    std::vector<std::string> names;
    for (const auto& set : sets) names.push_back(set.name);
    if (std::ranges::any_of(sets, [](const auto& set) { return set.weight > 0; }))
      names.emplace_back(mean_set);
    rule(e.best_set != mean_set || sets.empty() || names.back() == mean_set, {"evaluate.best_set"},
         "evaluate.best_set = \"{}\" is the weighted mean of the [[validation]] sets, but none of "
         "them has a weight; set validation.weight",
         e.best_set);
    if (e.best_set == mean_set && !sets.empty()) names.emplace_back(mean_set);
    rule(e.best_set.empty() || std::ranges::find(names, e.best_set) != names.end(),
         {"evaluate.best_set"},
         "evaluate.best_set = \"{}\" is not the name of a [[validation]] set{}", e.best_set,
         names.empty() ? "; remove it to use data.validation"
                       : fmt::format("; the names are {}", fmt::join(names, ", ")));
    rule(e.best_by == BestBy::loss ||
             traits_of(deck_.train.objective).measures == Measures::preferences,
         {"evaluate.best_by", "train.objective"},
         "evaluate.best_by = \"{}\" needs an objective for preference pairs, but train.objective "
         "is \"{}\": set evaluate.best_by = \"loss\"",
         name_of(e.best_by), name_of(deck_.train.objective));
    rule(e.patience == 0 || e.every_steps > 0, {"evaluate.patience", "evaluate.every_steps"},
         "evaluate.patience needs evaluations during training: set evaluate.every_steps");
    const bool together =
        e.every_steps > 0 && c.every_steps > 0 &&
        (c.every_steps % e.every_steps == 0 || e.every_steps % c.every_steps == 0);
    rule(c.keep_best == 0 || together,
         {"checkpoint.keep_best", "checkpoint.every_steps", "evaluate.every_steps"},
         "checkpoint.keep_best needs evaluations and checkpoints after the same steps, but "
         "evaluate.every_steps = {} and checkpoint.every_steps = {}: set one of them to the other, "
         "or to a multiple of it",
         e.every_steps, c.every_steps);
  }
};

}  // namespace

void evaluation_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  EvaluationRules(deck, problems).all();
}

}  // namespace trireme
