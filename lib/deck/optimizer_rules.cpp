#include "lib/deck/rules.hpp"

namespace trireme {
namespace {

class OptimizerKeyRules : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    momentum();
    matrices();
  }

 private:
  void momentum() {
    const auto& o = deck_.optimizer;
    rule(o.momentum == 0 || o.name == OptimizerKind::sgd, {"optimizer.momentum"},
         "optimizer.momentum needs optimizer.name = \"sgd\"; adamw and lion use optimizer.betas, "
         "muon and shampoo use optimizer.matrix_momentum");
    rule(
        !o.nesterov || o.name == OptimizerKind::sgd, {"optimizer.nesterov", "optimizer.name"},
        "optimizer.nesterov = true needs optimizer.name = \"sgd\"; adamw and lion have no Nesterov "
        "momentum, muon and shampoo use optimizer.matrix_nesterov, which is true by default");
    rule(!o.nesterov || o.momentum > 0 || o.name != OptimizerKind::sgd,
         {"optimizer.nesterov", "optimizer.momentum"},
         "optimizer.nesterov = true needs momentum: give optimizer.momentum, such as 0.9");
  }

  // Rules for the keys of optimizers that see matrices.
  void matrices() {
    const auto& o = deck_.optimizer;
    const OptimizerConfig unset;
    struct Setting {
      const char* key;
      bool set, used;
    };
    const bool whole = sees_matrices(o.name), by_shampoo = o.name == OptimizerKind::shampoo;
    for (const auto& [key, set, used] :
         {Setting{"optimizer.matrix_momentum", o.matrix_momentum != unset.matrix_momentum, whole},
          Setting{"optimizer.matrix_nesterov", o.matrix_nesterov != unset.matrix_nesterov, whole},
          Setting{"optimizer.matrix_scale", o.matrix_scale != unset.matrix_scale, whole},
          Setting{"optimizer.matrix_heads", o.matrix_heads != unset.matrix_heads, whole},
          Setting{"optimizer.adamw_lr", o.adamw_lr.has_value(), whole},
          Setting{"optimizer.adamw_weight_decay", o.adamw_weight_decay.has_value(), whole},
          Setting{"optimizer.adamw_patterns", !o.adamw_patterns.empty(), whole},
          Setting{"optimizer.muon_polynomials", o.muon_polynomials != unset.muon_polynomials,
                  o.name == OptimizerKind::muon},
          Setting{"optimizer.shampoo_beta", o.shampoo_beta != unset.shampoo_beta, by_shampoo},
          Setting{"optimizer.shampoo_eps", o.shampoo_eps != unset.shampoo_eps, by_shampoo},
          Setting{"optimizer.shampoo_every", o.shampoo_every != unset.shampoo_every, by_shampoo}})
      rule(used || !set, {key, "optimizer.name"},
           "{0} has no effect with optimizer.name = \"{1}\": remove {0}, or choose another "
           "optimizer",
           key, name_of(o.name));
    rule(!o.adamw_lr || o.lr > 0, {"optimizer.adamw_lr", "optimizer.lr"},
         "optimizer.adamw_lr needs optimizer.lr above 0, because it follows the schedule of "
         "optimizer.lr: give a small optimizer.lr. To train no matrix, also freeze the matrices "
         "with [[freeze]]");
  }
};

}  // namespace

void optimizer_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  OptimizerKeyRules(deck, problems).all();
}

}  // namespace trireme
