#include "lib/run/optimizer_warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/keys/value.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/shard/matrices.hpp"
#include "lib/train/optimizer.hpp"

namespace trireme {
namespace {

// Describes a learning rate ten times above or below the usual ones.
std::string about_rate(std::string_view key, double lr, UsualRates usual,
                       std::string_view optimizer) {
  const bool above = lr > 10 * usual.most;
  if (!above && (lr <= 0 || 10 * lr >= usual.least)) return {};
  return fmt::format(
      "{} = {} is far {} the usual learning rates of {} ({} to {}): {}", key, number_text(lr),
      above ? "above" : "below", optimizer, number_text(usual.least), number_text(usual.most),
      above ? "the first steps may destroy the model" : "the model may learn nothing");
}

std::string about_rate_of_lr(const OptimizerConfig& o) {
  auto name = fmt::format("optimizer.name = \"{}\"", name_of(o.name));
  if (sees_matrices(o.name))
    name += fmt::format(" with optimizer.matrix_scale = \"{}\"", name_of(o.matrix_scale));
  return about_rate("optimizer.lr", o.lr, usual_rates(o), name);
}

// The default of optimizer.lr suits AdamW, and Muon only if its steps are as large.
std::string about_default_rate(const OptimizerConfig& o) {
  if (o.name != OptimizerKind::muon || o.matrix_scale == MatrixScale::adamw ||
      o.lr != OptimizerConfig{}.lr)
    return {};
  return fmt::format(
      "optimizer.lr = {}, the default, is low for muon with optimizer.matrix_scale = \"{}\", "
      "where pretraining usually needs about 0.02: set optimizer.lr, or set "
      "optimizer.matrix_scale = \"{}\", with which muon has the learning rates of AdamW",
      number_text(o.lr), name_of(o.matrix_scale), name_of(MatrixScale::adamw));
}

// With a scale of its own, optimizer.lr is a learning rate of matrices, and mostly too large for
// AdamW.
std::string about_rate_of_others(const OptimizerConfig& o) {
  const auto usual = usual_rates(OptimizerConfig{});
  if (o.adamw_lr) return about_rate("optimizer.adamw_lr", *o.adamw_lr, usual, "AdamW");
  if (o.matrix_scale == MatrixScale::adamw || o.lr <= usual.most) return {};
  return fmt::format(
      "AdamW updates all other parameters with optimizer.lr = {}, because optimizer.adamw_lr is "
      "not set. This is above the usual learning rates of AdamW ({} to {}): set "
      "optimizer.adamw_lr, such as 3e-4",
      number_text(o.lr), number_text(usual.least), number_text(usual.most));
}

// Returns the pattern of a name in all blocks, and for all experts.
std::string in_all_blocks(std::string_view name) {
  std::string pattern;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = name.find('.', begin);
    const auto word = name.substr(begin, end == std::string_view::npos ? end : end - begin);
    const bool number = word.find_first_not_of("0123456789") == std::string_view::npos;
    if (begin > 0) pattern += '.';
    pattern += number ? std::string_view("*") : word;
  }
  return pattern;
}

// Returns flags by ParamId: true if the parameter is trained in some of the steps.
std::vector<bool> trained_in(const ModelSpec& spec, std::span<const FreezeRule> rules,
                             StepSpan steps) {
  const FreezeSchedule freeze(rules, spec);
  auto begins = freeze.borders(steps.begin, steps.end);
  begins.push_back(steps.begin);
  std::vector<bool> trained(spec.params.size(), false);
  for (const auto step : begins) {
    const auto states = freeze.at(step);
    for (std::size_t i = 0; i < trained.size(); ++i)
      if (states[i].trained && spec.params[i].learns_from == LearnsFrom::gradients)
        trained[i] = true;
  }
  return trained;
}

// Whether an optimizer of matrices updates any, and AdamW any other parameters.
struct Updated {
  bool matrices = false, others = false;
};
Updated updated(const OptimizerConfig& o, const ModelSpec& spec, const std::vector<bool>& trained) {
  const auto whole = updated_as_matrices(spec, o.adamw_patterns);
  Updated any;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (trained[i]) (whole[i] ? any.matrices : any.others) = true;
  return any;
}

std::string about_patterns(const OptimizerConfig& o, const ModelSpec& spec,
                           const std::vector<bool>& trained) {
  const auto usually = updated_as_matrices(spec, {}),
             whole = updated_as_matrices(spec, o.adamw_patterns);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!trained[i] || !whole[i] || usually[i]) continue;
    auto name = fmt::format("\"{}\"", in_all_blocks(spec.params[i].name));
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  if (names.empty()) return {};
  return fmt::format(
      "optimizer.adamw_patterns replaces the default list, so {} updates {} instead of AdamW. To "
      "let AdamW update them, append these names to optimizer.adamw_patterns",
      name_of(o.name), fmt::join(names, ", "));
}

}  // namespace

bool updates_base_matrices(const OptimizerConfig& o, const ModelSpec& spec,
                           std::span<const FreezeRule> rules, StepSpan steps) {
  if (!sees_matrices(o.name)) return false;
  auto trained = trained_in(spec, rules, steps);
  for (std::size_t i = 0; i < trained.size(); ++i)
    trained[i] = trained[i] && !is_of_adapter(spec.params[i]);
  return updated(o, spec, trained).matrices;
}

std::vector<std::string> optimizer_warnings(const OptimizerConfig& o, const ModelSpec& spec,
                                            std::span<const FreezeRule> rules, StepSpan steps) {
  std::vector<std::string> all;
  if (!sees_matrices(o.name)) {
    all.push_back(about_rate_of_lr(o));
  } else {
    const auto trained = trained_in(spec, rules, steps);
    const auto any = updated(o, spec, trained);
    if (any.matrices) {
      all.push_back(about_rate_of_lr(o));
      if (spec.adapters.empty()) all.push_back(about_default_rate(o));
    }
    if (any.others) all.push_back(about_rate_of_others(o));
    if (any.others && !any.matrices)
      all.push_back(fmt::format(
          "optimizer.name = \"{}\" updates no matrix, because [[freeze]] rules and "
          "optimizer.adamw_patterns leave none to it: AdamW updates all that is trained",
          name_of(o.name)));
    if (!o.adamw_patterns.empty()) all.push_back(about_patterns(o, spec, trained));
  }
  std::erase_if(all, [](const std::string& text) { return text.empty(); });
  return all;
}

}  // namespace trireme
