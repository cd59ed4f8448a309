#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/pattern.hpp"
#include "lib/deck/rules.hpp"
#include "lib/keys/key.hpp"
#include "lib/model/spec.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/matrices.hpp"
#include "lib/shard/pattern_advice.hpp"

namespace trireme {
namespace {

// Returns the model's parameters. Their names do not depend on the size of the vocabulary, which is
// unknown before the token files are read.
ModelSpec named_spec(const Deck& deck) {
  ModelConfig model = deck.model;
  if (model.vocab == 0) model.vocab = 1;
  return make_spec(model, deck.adapter);
}

class PatternRules : DeckRules {
 public:
  PatternRules(const Deck& deck, std::vector<DeckProblem>& problems)
      : DeckRules(deck, problems), spec_(named_spec(deck)) {}

  void all() {
    adapters();
    for (const auto& pattern : deck_.optimizer.no_decay)
      matches_parameter(pattern, "optimizer.no_decay", "optimizer.no_decay");
    if (sees_matrices(deck_.optimizer.name)) adamw_patterns();
    fp8_except();
    if (deck_.zero.gather_type == GatherType::fp8) fp8_gathers();
    for (std::size_t row = 0; row < deck_.freeze.size(); ++row)
      matches_parameter(deck_.freeze[row].pattern, "freeze.pattern",
                        key_in_row("freeze.pattern", row));
  }

 private:
  void adapters() {
    const auto of_expert = [&](const AdapterParams& a) {
      return spec_.params[a.weight.index()].expert >= 0;
    };
    rule(deck_.adapter.dropout == 0 || std::ranges::none_of(spec_.adapters, of_expert),
         {"adapter.dropout", "adapter.patterns"},
         "adapter.dropout = {} does not support adapters of experts: set adapter.dropout = 0, or "
         "remove the experts from adapter.patterns",
         deck_.adapter.dropout);
  }

  // Requires that the pattern matches the name of a parameter.
  void matches_parameter(const std::string& pattern, std::string_view path,
                         const std::string& key) {
    const auto named = [&](const ParamSpec& p) { return matches(pattern, p.name); };
    const auto any = [](const ParamSpec&) { return true; };
    rule(std::ranges::any_of(spec_.params, named), {key},
         "{}: the pattern \"{}\" matches no parameter; {}", path, pattern,
         advice_for_pattern(spec_, pattern, any));
  }

  // Requires that each pattern matches a matrix, and that a matrix remains.
  void adamw_patterns() {
    try {
      const auto whole = updated_as_matrices(spec_, deck_.optimizer.adamw_patterns);
      rule(std::ranges::count(whole, 1) > 0, {"optimizer.adamw_patterns", "optimizer.name"},
           "optimizer.adamw_patterns leaves no matrix to optimizer.name = \"{}\": remove a "
           "pattern, or set optimizer.name = \"adamw\"",
           name_of(deck_.optimizer.name));
    } catch (const Error& e) {
      rule(false, {"optimizer.adamw_patterns"}, "{}", e.what());
    }
  }

  // Requires that each pattern matches a weight whose products would be in fp8 without it.
  void fp8_except() {
    const auto weights = fp8_weights(deck_.precision);
    const auto in_fp8 = [&](const ParamSpec& p) {
      return uses_fp8(spec_, ParamId::at(static_cast<std::size_t>(&p - spec_.params.data())),
                      weights);
    };
    for (const auto& pattern : weights.except) {
      const auto named = [&](const ParamSpec& p) { return matches(pattern, p.name) && in_fp8(p); };
      rule(std::ranges::any_of(spec_.params, named), {"precision.fp8_except"},
           "precision.fp8_except: the pattern \"{}\" matches no weight whose products would be in "
           "fp8; {}",
           pattern, advice_for_pattern(spec_, pattern, in_fp8));
    }
  }

  void fp8_gathers() {
    const auto spec = with_fp8(spec_, fp8_weights(deck_.precision));
    bool any = false;
    for (std::size_t i = 0; i < spec.params.size(); ++i)
      any = any || can_be_sent_in_fp8(spec, ParamId::at(i));
    rule(any, {"zero.gather_type", "adapter.base", "adapter.method", "precision.fp8_except"},
         "zero.gather_type = \"fp8\" has no effect, because no weight can be sent in fp8. Weights "
         "in 4 bits (adapter.base = \"nf4\"), below DoRA adapters, outside of fp8 products or in "
         "a tied head are sent as they are: set zero.gather_type = \"compute\"");
  }

  const ModelSpec spec_;
};

}  // namespace

void pattern_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  PatternRules(deck, problems).all();
}

}  // namespace trireme
