#include <limits>
#include <utility>

#include "kernels/fp8.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/deck/rules.hpp"
#include "lib/deck/sections.hpp"
#include "lib/deck/table.hpp"
#include "lib/keys/key.hpp"

namespace trireme {
namespace {

std::vector<double> reals_of(const KeyValue& value) {
  if (const auto* all = std::get_if<std::vector<double>>(&value)) return *all;
  if (std::holds_alternative<Automatic>(value)) return {};
  return {std::get<double>(value)};
}

class PrecisionRules : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    types();
    if (deck_.precision.products == ProductType::fp8) fp8_products();
    single_precision();
  }

 private:
  void types() {
    const PrecisionConfig& p = deck_.precision;
    const bool wide_run = p.compute == DType::f64;
    rule(!wide_run || deck_.run.backend == "ref", {"precision.compute", "run.backend"},
         "precision.compute = \"f64\" needs run.backend = \"ref\", the only backend that supports "
         "f64");
    rule(wide_run == (p.reduce == DType::f64), {"precision.reduce", "precision.compute"},
         "precision.reduce = \"{}\" cannot be combined with precision.compute = \"{}\"; set "
         "precision.reduce = \"auto\"",
         name_of(p.reduce), name_of(p.compute));
    for (const auto& [key, set] : {std::pair("precision.fp8_except", !p.fp8_except.empty()),
                                   {"precision.fp8_skip_first", p.fp8_skip_first > 0},
                                   {"precision.fp8_skip_last", p.fp8_skip_last > 0},
                                   {"precision.fp8_head", p.fp8_head}})
      rule(p.products == ProductType::fp8 || !set, {key, "precision.products"},
           "{} has no effect without precision.products = \"fp8\"", key);
  }

  // cuBLASLt multiplies in fp8 only if all sizes are multiples of 16.
  void fp8_products() {
    const PrecisionConfig& p = deck_.precision;
    rule(p.compute == DType::bf16, {"precision.products", "precision.compute"},
         "precision.products = \"fp8\" needs precision.compute = \"bf16\", not \"{}\"",
         name_of(p.compute));
    const auto tokens = deck_.data.context / deck_.parallel.seq;
    rule(tokens % fp8::multiple == 0, {"precision.products", "model.context", "parallel.seq"},
         "precision.products = \"fp8\" needs a multiple of {} tokens of a sample on each rank "
         "(model.context / parallel.seq), not {}",
         fp8::multiple, tokens);
    const auto at_once = deck_.train.chunk_tokens.value_or(0);
    rule(at_once % fp8::multiple == 0, {"precision.products", "model.chunk_tokens"},
         "precision.products = \"fp8\" needs a multiple of {} in model.chunk_tokens, not {}",
         fp8::multiple, at_once);
    const ModelConfig m = completed(deck_.model);
    rule(p.fp8_head || p.fp8_skip_first + p.fp8_skip_last < m.layers,
         {"precision.fp8_skip_first", "precision.fp8_skip_last"},
         "precision.fp8_skip_first = {} and precision.fp8_skip_last = {} leave none of the {} "
         "blocks in fp8: lower them, or set precision.products = \"compute\"",
         p.fp8_skip_first, p.fp8_skip_last, m.layers);
    rule(!p.fp8_head || m.vocab % fp8::multiple == 0, {"precision.fp8_head", "model.vocab"},
         "precision.fp8_head = true needs a vocabulary whose size is a multiple of {}, not {}: set "
         "model.vocab = {}, which adds ids that no token has",
         fp8::multiple, m.vocab, fp8::rounded_up(m.vocab, fp8::multiple));
    for (const auto& [key, size] : {std::pair("model.width", m.width),
                                    {"model.head_dim", m.head_dim * m.kv_heads},
                                    {"model.head_dim", m.head_dim * m.heads},
                                    {"model.ffn_width", m.ffn_width},
                                    {"model.shared_expert_width", m.shared_expert_width}})
      rule(size % fp8::multiple == 0, {"precision.products", key},
           "precision.products = \"fp8\" needs layers whose widths are multiples of {}, but {} "
           "gives a width of {}",
           fp8::multiple, key, size);
  }

  // Rejects numbers that f32 rounds to a value outside of their range, or to zero. The host treats
  // all numbers below the smallest normal one as zero.
  void single_precision() {
    if (deck_.precision.compute == DType::f64) return;
    for (const auto& section : deck_sections())
      for (const auto& key : section.keys)
        if (key.rounded_to_f32)
          for (const double x : reals_of(key.access.get(deck_, 0))) {
            const auto rounded = static_cast<float>(x);
            const bool vanishes = x != 0 && rounded < std::numeric_limits<float>::min();
            const bool excluded = key.range->below_max && rounded >= key.range->max;
            rule(!vanishes && !excluded, {key.path()},
                 "{} = {} rounds to {} in f32, the type it is used in: give {}", key.path(),
                 number_text(x), vanishes ? 0 : key.range->max,
                 vanishes ? "1.2e-38 or more" : "at most 0.9999999");
          }
  }
};

}  // namespace

void precision_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  PrecisionRules(deck, problems).all();
}

}  // namespace trireme
