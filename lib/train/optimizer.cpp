#include "lib/train/optimizer.hpp"

#include "lib/base/error.hpp"

namespace trireme {

static UpdateRule rule_of_elements(const OptimizerConfig& o) {
  switch (o.name) {
    case OptimizerKind::adamw:
    case OptimizerKind::muon:
    case OptimizerKind::shampoo:
      return rule::AdamW{.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
    case OptimizerKind::sgd:
      if (o.momentum == 0) return rule::Sgd{};
      return rule::Momentum{.momentum = o.momentum, .nesterov = o.nesterov};
    case OptimizerKind::lion:
      return rule::Lion{.beta1 = o.beta1, .beta2 = o.beta2};
  }
  fail("optimizer.name has the value {}, but no optimizer has this number",
       static_cast<int>(o.name));
}

static MatrixRule rule_of_matrices(const OptimizerConfig& o) {
  if (o.name == OptimizerKind::shampoo)
    return matrix_rule::Shampoo{.momentum = o.matrix_momentum,
                                .nesterov = o.matrix_nesterov,
                                .beta = o.shampoo_beta,
                                .eps = o.shampoo_eps,
                                .every = o.shampoo_every};
  return matrix_rule::Muon{.momentum = o.matrix_momentum,
                           .nesterov = o.matrix_nesterov,
                           .polynomials = o.muon_polynomials};
}

OptimizerRules optimizer_rules(const OptimizerConfig& o, double average_decay) {
  OptimizerRules rules{.elements = rule_of_elements(o), .average_decay = average_decay};
  if (!sees_matrices(o.name)) return rules;
  if (o.adamw_lr && o.lr > 0) rules.lr_factor = *o.adamw_lr / o.lr;
  rules.decay = o.adamw_weight_decay;
  rules.matrices = MatrixOptimizer{rule_of_matrices(o), o.matrix_scale, o.matrix_heads};
  return rules;
}

}  // namespace trireme
