#include "lib/train/objective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trireme {

static constexpr std::array dpo_keys{ObjectiveKey{"dpo_beta", &TrainConfig::dpo_beta},
                                     ObjectiveKey{"dpo_scores", &TrainConfig::dpo_scores}};
static constexpr std::array simpo_keys{ObjectiveKey{"simpo_beta", &TrainConfig::simpo_beta},
                                       ObjectiveKey{"simpo_gamma", &TrainConfig::simpo_gamma}};
static constexpr std::array orpo_keys{ObjectiveKey{"orpo_lambda", &TrainConfig::orpo_lambda}};
static constexpr std::array kto_keys{
    ObjectiveKey{"kto_beta", &TrainConfig::kto_beta},
    ObjectiveKey{"kto_desirable_weight", &TrainConfig::kto_desirable_weight},
    ObjectiveKey{"kto_undesirable_weight", &TrainConfig::kto_undesirable_weight},
    ObjectiveKey{"dpo_scores", &TrainConfig::dpo_scores}};

static constexpr std::array objectives{
    ObjectiveTraits{.objective = Objective::tokens,
                    .samples = Documents::single,
                    .fixed = FixedModel::none,
                    .measures = Measures::perplexity,
                    .keys = {},
                    .loss = nullptr},
    ObjectiveTraits{.objective = Objective::dpo,
                    .samples = Documents::pairs,
                    .fixed = FixedModel::reference,
                    .measures = Measures::preferences,
                    .keys = dpo_keys,
                    .loss = [](const TrainConfig& t) -> PreferenceLoss { return Dpo{t.dpo_beta}; }},
    ObjectiveTraits{.objective = Objective::simpo,
                    .samples = Documents::pairs,
                    .fixed = FixedModel::none,
                    .measures = Measures::preferences,
                    .keys = simpo_keys,
                    .loss = [](const TrainConfig& t) -> PreferenceLoss {
                      return Simpo{t.simpo_beta, t.simpo_gamma};
                    }},
    ObjectiveTraits{
        .objective = Objective::orpo,
        .samples = Documents::pairs,
        .fixed = FixedModel::none,
        .measures = Measures::preferences,
        .keys = orpo_keys,
        .loss = [](const TrainConfig& t) -> PreferenceLoss { return Orpo{t.orpo_lambda}; }},
    ObjectiveTraits{.objective = Objective::kto,
                    .samples = Documents::labeled,
                    .fixed = FixedModel::reference,
                    .measures = Measures::preferences,
                    .keys = kto_keys,
                    .loss = [](const TrainConfig& t) -> PreferenceLoss {
                      return Kto{t.kto_beta, t.kto_desirable_weight, t.kto_undesirable_weight};
                    }},
    ObjectiveTraits{.objective = Objective::distill,
                    .samples = Documents::single,
                    .fixed = FixedModel::teacher,
                    .measures = Measures::perplexity,
                    .keys = {},
                    .loss = nullptr},
};

static consteval bool are_complete() {
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    const auto& o = objectives[i];
    if (o.objective != static_cast<Objective>(i)) return false;
    if ((o.samples == Documents::single) != (o.loss == nullptr)) return false;
  }
  return objectives.size() == value_names<Objective>.size();
}
static_assert(are_complete(), "an objective has no traits, or traits are not in order");

const ObjectiveTraits& traits_of(Objective o) {
  return objectives[static_cast<std::size_t>(o)];
}

bool ObjectiveKey::is_set(const TrainConfig& t) const {
  return std::visit([&](auto m) { return t.*m != TrainConfig().*m; }, member);
}

// Returns text such as "a, b or c".
static std::string listed(std::vector<std::string> all, std::string_view word) {
  if (all.size() < 2) return all.empty() ? "" : all[0];
  const auto last = all.back();
  all.pop_back();
  return fmt::format("{} {} {}", fmt::join(all, ", "), word, last);
}

std::string objectives_text(const std::function<bool(const ObjectiveTraits&)>& holds) {
  std::vector<std::string> names;
  for (const auto& o : objectives)
    if (holds(o)) names.push_back(fmt::format("\"{}\"", name_of(o.objective)));
  return listed(std::move(names), "or");
}

std::string objectives_for(Documents kind) {
  return objectives_text([kind](auto& o) { return o.samples == kind; });
}

std::vector<ObjectiveKey> objective_keys() {
  std::vector<ObjectiveKey> all;
  for (const auto& o : objectives)
    for (const auto& key : o.keys)
      if (std::ranges::find(all, key.name, &ObjectiveKey::name) == all.end()) all.push_back(key);
  return all;
}

std::string objective_keys_text() {
  std::string text;
  for (const auto& key : objective_keys())
    text += fmt::format("{}train.{}", text.empty() ? "" : ", ", key.name);
  return text;
}

std::string loss_settings_text(const TrainConfig& t) {
  std::vector<std::string> all;
  for (const auto& key : traits_of(t.objective).keys)
    if (const auto* const number = std::get_if<double TrainConfig::*>(&key.member))
      all.push_back(fmt::format("{} {}", key.name, t.**number));
  return listed(std::move(all), "and");
}

ObjectiveSetup objective_setup(const TrainConfig& t, const DistillConfig& distill,
                               const std::optional<ModelConfig>& teacher) {
  const auto& traits = traits_of(t.objective);
  if (traits.loss) {
    PreferenceTraining training{traits.loss(t), Reference::none};
    if (traits.fixed == FixedModel::reference)
      training.reference = t.dpo_scores.empty() ? Reference::without_adapters : Reference::given;
    return training;
  }
  if (traits.fixed == FixedModel::teacher && teacher)
    return TeacherSetup{*teacher, distill.temperature, distill.weight};
  return TokenTraining{};
}

std::vector<StepPass> passes_of_step(const ObjectiveSetup& setup) {
  if (std::holds_alternative<TeacherSetup>(setup))
    return {StepPass::teacher_inputs, StepPass::gradients};
  const auto* const preferences = std::get_if<PreferenceTraining>(&setup);
  if (!preferences) return {StepPass::gradients};
  if (preferences->reference != Reference::without_adapters)
    return {StepPass::policy_losses, StepPass::gradients};
  return {StepPass::policy_losses, StepPass::reference_losses, StepPass::gradients};
}

StepProgress progress_of(std::span<const StepPass> passes, int m, int microbatches) {
  // If there is only one pass, the units are micro-batches.
  const int before = static_cast<int>(passes.size()) - 1, each = before > 0 ? 3 : 1;
  return {before * microbatches + each * m, (before + each) * microbatches};
}

}  // namespace trireme
