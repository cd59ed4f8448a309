// One optimizer step of a trainer: forward and backward passes, their sums, and the update.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/trace.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/shard/digests.hpp"
#include "lib/train/digests.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

static std::vector<int> in_order(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

static std::vector<int> reversed(std::vector<int> all) {
  std::ranges::reverse(all);
  return all;
}

// In step(), the ranks' answers before micro-batch 1 can take effect at micro-batch 1 +
// most_ahead() at the earliest.
bool Trainer::can_drop(std::int64_t microbatches) const {
  return passes_of_step(setup_.objective).size() > 1 || microbatches > 1 + most_ahead(pipe_);
}

// Throws Error unless the pipeline can run these micro-batches and they fit the objective.
static void require_batches(const TrainerSetup& setup, const Pipeline& pipe,
                            std::span<const Batch> microbatches) {
  const std::string fault =
      pipeline_fault(pipe.schedule, pipe.stages, pipe.chunks, std::ssize(microbatches));
  require(fault.empty(), "{}", fault);
  for (const auto& batch : microbatches) {
    expect(batch.start_BT.empty() == (setup.attention == AttentionSpan::causal),
           "batches have starts of documents where attention is kept within them");
    require(batch.weight_BT.empty() || !std::holds_alternative<PreferenceTraining>(setup.objective),
            "pairs and labeled answers have no weights of documents");
  }
}

// Sets the outcome and the culprit of a step that does not update the weights, because a number is
// not finite or above its limit.
static void judge(StepResult& result, const StepSums& sums, const StepLimits& limits,
                  const ModelSpec& spec) {
  if (!std::isfinite(sums.squares) || !std::isfinite(result.loss)) {
    result.outcome = StepOutcome::not_finite;
    result.culprit = sums.not_finite
                         ? fmt::format("the gradient of {}", spec.params[*sums.not_finite].name)
                         : "the loss";
  } else if (result.loss > limits.loss) {
    result.outcome = StepOutcome::above_limit;
    result.culprit = fmt::format("the loss {:.6g} is above {:.6g}", result.loss, limits.loss);
  } else if (result.grad_norm > limits.grad_norm) {
    result.outcome = StepOutcome::above_limit;
    result.culprit =
        fmt::format("the gradient norm {:.6g} is above {:.6g}", result.grad_norm, limits.grad_norm);
  }
}

StepResult Trainer::step(std::int64_t step, double lr, std::span<const Batch> microbatches,
                         const ShouldAbandon& should_abandon, Replay replay_wanted,
                         const StepLimits& limits) {
  require_batches(setup_, pipe_, microbatches);
  follow_freeze_rules(step);
  has_gradients_ = false;
  StepResult result;
  const auto counts = count(microbatches);
  result.valid = counts.valid;
  result.tokens = counts.tokens;
  if (result.valid == 0) {
    result.outcome = StepOutcome::no_targets;
    return result;
  }
  const double scale = counts.largest_weight / counts.weight;
  const int count = static_cast<int>(microbatches.size());
  // The ranks' answers before micro-batch m take effect most_ahead() micro-batches later. By then,
  // all ranks have answered, so that no rank waits for another.
  std::vector<PendingMaximum> answers;
  const auto passes = passes_of_step(setup_.objective);
  const auto wants_to_end = [&](int m) {
    const auto progress = progress_of(passes, m, count);
    return axes_.world.start_max(should_abandon(progress.done, progress.of));
  };
  const auto drop = [&](int m) {
    answers.push_back(wants_to_end(m));
    const int asked = m - most_ahead(pipe_);
    return asked > 0 && answers[static_cast<std::size_t>(asked - 1)].wait() > 0;
  };
  ModelStage::Settings settings{.phase = Phase::train,
                                .seed = setup_.seed,
                                .step = step,
                                .scale = scale,
                                .drop = should_abandon ? drop : std::function<bool(int)>()};
  std::optional<ActivationDigests> activations;
  if (replay_wanted == Replay::yes) activations.emplace(backend_, model_, in_order(count));
  settings.activations = activations ? &*activations : nullptr;
  const auto tokens = static_cast<double>(counts.tokens);
  if (setup_.balance == Balance::sample) settings.balance_scale = setup_.balance_weight / tokens;
  if (setup_.model.experts > 0 && setup_.router_z > 0) settings.z_scale = setup_.router_z / tokens;
  const auto before =
      run_before(microbatches, {.phase = Phase::train, .seed = setup_.seed, .step = step});
  std::optional<Preferences> preferences;
  if (const auto* const training = std::get_if<PreferenceTraining>(&setup_.objective)) {
    preferences = prefer(*training, microbatches, before);
    settings.head = HeadLossesOfRows{preferences->losses};
    result.preferences = preferences->sums;
  }
  if (const auto* const teacher = teacher_of(setup_))
    settings.head = HeadLossOfTaught{before.teacher,
                                     {.softcap = teacher->model.logit_softcap,
                                      .temperature = teacher->temperature,
                                      .share = teacher->weight}};
  if (passes.size() > 1 && should_abandon && wants_to_end(0).wait() > 0) {
    result.outcome = StepOutcome::dropped;
    return result;
  }
  auto computed = compute(microbatches, counts, settings);
  for (auto& answer : answers) answer.wait();
  if (!computed) {
    store_.discard_gradients();
    result.outcome = StepOutcome::dropped;
    return result;
  }
  // After a signal, there may be no time for a second computation.
  if (activations &&
      !(should_abandon && axes_.world.start_max(should_abandon(count, 2 * count)).wait() > 0)) {
    auto replayed = replay(*computed, *activations, microbatches, counts, settings);
    computed = std::move(replayed.computed);
    result.fault = std::move(replayed.fault);
  }
  const auto& sums = computed->sums;
  result.routing = std::move(computed->routing);
  has_gradients_ = true;
  check_memory();  // before the sums are judged, because a corrupted weight may have spoiled them
  if (!sums.overflow.empty()) {
    store_.discard_gradients();
    throw CountOverflow(sums.overflow);
  }
  result.loss = preferences ? preferences->sums.mean_loss() : sums.loss * (1.0 / counts.weight);
  result.grad_norm = std::sqrt(sums.squares);
  // A planned step has no values, but an update, which may send messages and take memory.
  if (backend_.keeps_values()) judge(result, sums, limits, model_.spec());
  if (result.outcome != StepOutcome::updated) {
    store_.discard_gradients();
    return result;
  }
  const double clip = setup_.optimizer.clip;
  update(lr, clip > 0 ? std::min(1.0, clip / (result.grad_norm + 1e-6)) : 1.0, result.routing);
  return result;
}

StepResult Trainer::skip(std::int64_t step) {
  follow_freeze_rules(step);
  has_gradients_ = false;
  StepResult result;
  result.outcome = StepOutcome::listed;
  return result;
}

std::optional<Trainer::Computed> Trainer::compute(std::span<const Batch> microbatches,
                                                  const StepCounts& counts,
                                                  ModelStage::Settings settings) {
  const auto program = training_program(pipe_, static_cast<int>(microbatches.size()), axes_.at.pipe,
                                        first_trainable_stage());
  RoutingSums routing(backend_, model_.spec(), setup_.exact_chunk > 0);
  settings.totals = routing.totals();
  // Preferences have no weights of documents.
  const bool weighted = !microbatches[0].weight_BT.empty();
  std::vector<WeightedRows> weights;
  std::vector<std::vector<LossRows>> rows;
  if (weighted) {
    for (const auto& batch : microbatches)
      rows.push_back(weights.emplace_back(weighted_rows(batch, counts.weight)).rows);
    // The number of rows limits the number of sums. Memory does not depend on the weights.
    const HeadLossesOfRows losses{rows, std::ssize(microbatches[0].targets_BT)};
    if (auto* const taught = std::get_if<HeadLossOfTaught>(&settings.head))
      taught->losses = losses;
    else
      settings.head = losses;
  }
  const auto losses = run(program, Purpose::train, microbatches, std::move(settings));
  if (!losses) return std::nullopt;
  auto norms = [&] {
    const TraceScope span("gradient norm");
    const TaskScope task(Task::optimizer);
    return store_.finish_gradients();
  }();
  const auto loss = weighted
                        ? download_weighted(axes_.world, backend_, *losses, weights, counts.valid)
                        : download(axes_.world, backend_, *losses, counts.valid);
  auto sums = setup_.exact_chunk > 0
                  ? add_counts(axes_.world, model_.spec(), std::move(norms), loss)
                  : add_in_order(axes_.world, std::move(norms), loss);
  auto routed = routing.read(axes_.world, counts.tokens);
  if (setup_.router_z == 0) routed.z = 0;  // computed with the balancing loss, but not trained
  return Computed{std::move(sums), std::move(routed)};
}

Trainer::Replayed Trainer::replay(const Computed& computed, const ActivationDigests& activations,
                                  std::span<const Batch> microbatches, const StepCounts& counts,
                                  ModelStage::Settings settings) {
  const auto& world = axes_.world;
  settings.drop = {};
  const auto come_to = [&](const StepSums& s, const ActivationDigests& t) {
    return Computation{digests_of_all_gradients(store_), s.loss, s.squares, t.read(world)};
  };
  Computed newest;
  const auto execute = [&](std::vector<int> order) {
    std::vector<Batch> ordered;
    for (const int m : order) ordered.push_back(microbatches[static_cast<std::size_t>(m)]);
    ActivationDigests of_this(backend_, model_, std::move(order));
    settings.activations = &of_this;
    newest = *compute(ordered, counts, settings);
    return come_to(newest.sums, of_this);
  };
  const auto order = in_order(static_cast<int>(microbatches.size()));
  const auto first = come_to(computed.sums, activations);
  const auto second = execute(setup_.exact_chunk > 0 ? reversed(order) : order);
  if (have_same_results(world, first, second)) return {newest, ""};
  const auto third = execute(order);
  const auto where = first_difference(world, model_, first, second);
  const bool as_first = have_same_results(world, third, first);
  if (!as_first && !have_same_results(world, third, second))
    throw SharedError(fmt::format(
        "a step was computed three times with three different results, which differ {}", where));
  return {newest, fmt::format("computed twice with different results, which differ {}; a third "
                              "computation gave the {} result again",
                              where, as_first ? "first" : "second")};
}

void Trainer::update(double lr, double scale, const Routing& routing) {
  const TraceScope span("optimizer");
  const TaskScope task(Task::optimizer);
  store_.update({.lr = lr, .decay = setup_.optimizer.weight_decay, .scale = scale});
  if (setup_.balance == Balance::bias) move_router_biases(routing);
  if (setup_.check_memory) memory_ = digests_of_memory(store_);
}

void Trainer::move_router_biases(const Routing& routing) {
  for (std::size_t i = 0; i < routing.layers.size(); ++i) {
    const auto p = model_.spec().blocks[static_cast<std::size_t>(routing.layers[i])].router_bias;
    const bool moves = model_.spec().params[p.index()].learns_from == LearnsFrom::loads;
    if (moves && freeze_states_[p.index()].trained)
      store_.add(p, bias_change(routing.loads[i], setup_.balance_rate));
  }
}

}  // namespace trireme
