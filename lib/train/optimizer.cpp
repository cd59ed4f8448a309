#include "lib/train/optimizer.hpp"

#include <fmt/format.h>

#include <limits>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/shard/matrices.hpp"

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

static double two_digits(double x) {
  return std::stod(fmt::format("{:.1e}", x));
}

// The learning rates are 5e-7 (preference training) to 1e-2 for AdamW, a tenth of that for Lion
// (Chen et al. 2023), and up to 10 for SGD. Muon has AdamW's learning rates if its steps are as
// large (Liu et al. 2025, arXiv 2502.16982). Otherwise, its learning rates are 2e-4 (DeepSpeed's
// fine-tuning of Moonlight) to 0.05 (Jordan et al. 2024). A step of Shampoo is as large as a step
// of Muon, but a momentum of m adds up to 1 / (1 - m) steps.
UsualRates usual_rates(const OptimizerConfig& o) {
  constexpr UsualRates of_adamw{5e-7, 1e-2};
  const auto of_muon = o.matrix_scale == MatrixScale::adamw ? of_adamw : UsualRates{2e-4, 0.05};
  switch (o.name) {
    case OptimizerKind::adamw:
      return of_adamw;
    case OptimizerKind::lion:
      return {5e-8, 1e-3};
    case OptimizerKind::sgd:
      return {1e-5, 10};
    case OptimizerKind::muon:
      return of_muon;
    case OptimizerKind::shampoo:
      return {two_digits(of_muon.least * (1 - o.matrix_momentum)),
              two_digits(of_muon.most * (1 - o.matrix_momentum))};
  }
  fail("no optimizer has the number {}", static_cast<int>(o.name));
}

OptimizerRules optimizer_rules(const OptimizerConfig& o, double average_decay) {
  OptimizerRules rules{.elements = rule_of_elements(o), .average_decay = average_decay};
  if (!sees_matrices(o.name)) return rules;
  if (o.adamw_lr && o.lr > 0) rules.lr_factor = *o.adamw_lr / o.lr;
  rules.decay = o.adamw_weight_decay;
  rules.matrices = MatrixOptimizer{rule_of_matrices(o), o.matrix_scale, o.matrix_heads};
  return rules;
}

std::string matrices_text(const ModelSpec& spec, const OptimizerConfig& o,
                          std::span<const FreezeRule> freeze, std::int64_t step) {
  if (!sees_matrices(o.name)) return {};
  const auto whole = updated_as_matrices(spec, o.adamw_patterns);
  const FreezeSchedule schedule(freeze, spec);
  const auto states = schedule.at(step);
  std::size_t matrices = 0;
  std::int64_t in_matrices = 0, others = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto& p = spec.params[i];
    if (!states[i].trained || p.learns_from != LearnsFrom::gradients) continue;
    (whole[i] ? in_matrices : others) += p.shape.count();
    if (whole[i]) matrices += matrices_of(spec, ParamId::at(i), o.matrix_heads).size();
  }
  const bool changes = !schedule.borders(step, std::numeric_limits<std::int64_t>::max()).empty();
  return fmt::format("{} updates {} with {} parameters, and AdamW updates {} other parameters{}",
                     name_of(o.name),
                     matrices == 1 ? "1 matrix" : fmt::format("{} matrices", matrices),
                     count_text(in_matrices), count_text(others), changes ? " at first" : "");
}

}  // namespace trireme
