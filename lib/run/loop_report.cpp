// Reports of the training loop: table rows, log lines, evaluations and generated samples.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <numeric>
#include <utility>

#include "lib/base/counted.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/io/mean_evaluation.hpp"
#include "lib/run/evaluation.hpp"
#include "lib/run/loop.hpp"
#include "lib/run/preference_text.hpp"
#include "lib/run/sample.hpp"
#include "lib/train/work.hpp"

namespace trireme {

using Clock = std::chrono::steady_clock;

static RoutingRow routing_row(std::int64_t step, std::int64_t tokens, const Routing& r) {
  RoutingRow row{step, tokens, r.balance, r.z, r.more_rounds, {}};
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    const auto& loads = r.loads[l];
    const auto [least, most] = std::ranges::minmax(loads);
    const auto all = std::reduce(loads.begin(), loads.end(), std::int64_t{0});
    row.loads.push_back(
        {r.layers[l], least, static_cast<double>(all) / static_cast<double>(loads.size()), most});
  }
  return row;
}

void TrainLoop::report(const StepResult& r, double lr, double seconds, std::int64_t sent) {
  HistoryRow row;
  row.step = meta_.step;
  row.tokens = meta_.tokens;
  row.trained_tokens = meta_.extra.trained_tokens;
  const bool measured = is_measured(r.outcome);
  row.loss = measured ? r.loss : std::nan("");
  row.grad_norm = measured ? r.grad_norm : std::nan("");
  row.lr = lr;
  row.seconds = seconds;
  row.tokens_per_second = measured ? static_cast<double>(r.tokens) / seconds : std::nan("");
  if (settings_.peak_flops > 0)
    row.mfu = flops_of_token(trainer_.model().spec(), trainer_.model().context()) *
              row.tokens_per_second / (settings_.peak_flops * trainer_.axes().grid.ranks());
  row.bytes_peak = static_cast<std::int64_t>(trainer_.backend().account().peak_all);
  row.bytes_sent = sent;
  if (traits_of(settings_.train.objective).measures == Measures::preferences)
    row.preference = columns_of(measured ? *r.preferences : PreferenceSums{});
  std::optional<DigestTable> digests;
  if (is_multiple(meta_.step, settings_.run.digest_every)) digests = trainer_.digests();
  try {
    record_.add(row);
    if (digests) record_.add(DigestRow{std::move(*digests), meta_.step});
    if (!r.routing.layers.empty()) record_.add(routing_row(meta_.step, meta_.tokens, r.routing));
  } catch (const Error&) {
    row_error_ = std::current_exception();  // thrown later on all ranks
  }
  if (is_multiple(meta_.step, settings_.run.log_every)) {
    // The rate covers all steps since the previous line. It includes saving and excludes
    // evaluations.
    const auto preference_text = row.preference ? text_of(*row.preference) + ", " : std::string();
    log_detail("step {}/{}: loss {:.4f}, {}grad norm {:.3f}, lr {:.3g}, {:.0f} tokens/s",
               meta_.step, total_steps_, row.loss, preference_text, row.grad_norm, lr,
               static_cast<double>(line_.tokens) / (seconds_since(line_.at) - line_.evaluating));
    line_ = {0, Clock::now(), 0};
    compare_ranks();
  }
  if (const auto idle = idle_experts_.after(r.routing, settings_.train.balance); !idle.empty())
    log_warning("step {}: {}", meta_.step, idle);
  const bool learns = std::ranges::find(trainer_.store().trainable(), 1) !=
                      trainer_.store().trainable().end();  // false while all is frozen
  if (r.outcome == StepOutcome::updated && learns)
    for (const auto& why : stalled_.after({r.loss, r.grad_norm, lr}))
      log_warning("step {}: training stalled: {}", meta_.step, why);
  const double left = times_.of_samples(ramp_.samples(meta_.step, total_steps_));
  progress_.show({meta_.step, total_steps_, row.loss, lr, row.tokens_per_second, left});
}

void TrainLoop::compare_ranks() {
  const auto& world = trainer_.axes().world;
  if (world.size() == 1) return;
  const auto now = Timesheet::seconds();
  const auto mine = work_between(std::exchange(seconds_at_line_, now), now);
  constexpr std::size_t numbers = own_tasks.size() + 1;
  std::vector<double> all(numbers * static_cast<std::size_t>(world.size()));
  const auto place = all.begin() + static_cast<std::ptrdiff_t>(numbers) * world.rank();
  *std::ranges::copy(mine.own, place).out = mine.steps;
  world.all_reduce(all);
  if (world.rank() != 0) return;
  if (!stragglers_) {
    std::vector<Stragglers::Member> ranks;
    for (const auto& process : world.processes())
      ranks.push_back({process.host, trainer_.axes().grid.at(static_cast<int>(ranks.size())).pipe});
    stragglers_.emplace(std::move(ranks));
  }
  if (stragglers_->ranks() != static_cast<std::size_t>(world.size())) return;
  std::vector<RankWork> work(static_cast<std::size_t>(world.size()));
  for (auto from = all.begin(); auto& w : work) {
    std::copy_n(from, own_tasks.size(), w.own.begin());
    w.steps = from[own_tasks.size()];
    from += static_cast<std::ptrdiff_t>(numbers);
  }
  for (const auto& text : stragglers_->after(work)) log_warning("step {}: {}", meta_.step, text);
}

// Returns f(), computed with the weights that evaluate.ema selects. Training continues with the
// same weights as before, also if f() throws.
template <class F>
static auto with_evaluated_weights(Store& store, const EvaluateConfig& config, const F& f) {
  if (!config.ema) return f();
  store.swap_averages();
  try {
    auto result = f();
    store.swap_averages();
    return result;
  } catch (...) {
    store.swap_averages();
    throw;
  }
}

void TrainLoop::sample_now() {
  if (!tokenizer_ || !sample_is_due(settings_.evaluate, meta_.step, total_steps_)) return;
  const TaskScope task(Task::sampling);
  const auto begin = Clock::now();
  const auto text = with_evaluated_weights(trainer_.store(), settings_.evaluate, [&] {
    return sample_text(trainer_, *tokenizer_, settings_.evaluate,
                       [this] { return signals_.stop(); });
  });
  times_.sample = seconds_since(begin);
  line_.evaluating += times_.sample;
  if (!text) return;
  log_info("step {}: the model writes: {}", meta_.step, escaped(*text, text->npos));
  record_.add_sample(meta_.step, *text);
}

bool TrainLoop::evaluate_now(const std::vector<std::string>& sets) {
  const TaskScope task(Task::evaluating);
  const auto begin = Clock::now();
  bool complete = true;
  for (const auto& v : validation_)
    if (complete && std::ranges::find(sets, v.name) != sets.end()) complete = evaluate_set(v);
  if (complete && std::ranges::find(sets, mean_set) != sets.end()) report_mean();
  times_.evaluation = seconds_since(begin);
  line_.evaluating += times_.evaluation;
  return complete;
}

// The rows come from the tables, because a restart evaluates only the sets that have no row.
void TrainLoop::report_mean() {
  std::optional<EvaluationRow> row;
  at_root(trainer_.axes().world, Pace::slow, [&] {
    std::vector<WeightedEvaluation> all;
    for (const auto& v : validation_) {
      if (v.weight == 0) continue;
      const auto rows = record_.evaluations(v.name);
      if (rows.empty() || rows.back().step != meta_.step) return;
      all.push_back({v.weight, rows.back()});
    }
    row = mean_of(all);
    record_.add(std::string(mean_set), *row);
  });
  if (row)
    log_info("step {}: {} loss {:.4f}, {}", meta_.step, label_of_set(std::string(mean_set)),
             row->loss,
             row->preference ? text_of(*row->preference)
                             : fmt::format("perplexity {:.3f}", row->perplexity));
}

bool TrainLoop::evaluate_set(const ValidationData& v) {
  std::optional<Evaluation> result;
  try {
    result = with_evaluated_weights(trainer_.store(), settings_.evaluate, [&] {
      return evaluate(trainer_, v.data, settings_.evaluate.batches * settings_.train.batch,
                      settings_.train.microbatch, [this] { return signals_.stop(); });
    });
  } catch (const SharedError&) {
    save_and_rethrow();
  }
  if (!result) {
    log_info("step {}: a signal interrupted the evaluation", meta_.step);
    return false;
  }
  const auto label = v.label();
  const auto loss = result->loss;
  if (loss.valid == 0) {
    log_warning("step {}: no {} loss, because all targets of the evaluated samples are masked",
                meta_.step, label);
    return true;
  }
  // The run continues, because each step is judged separately. However, the validation loss of the
  // last step is the result of the run. If it is not finite, no row is written, so that the next
  // start evaluates again and does not consider the run complete.
  if (const auto wrong = not_finite(*result, label); !wrong.empty()) {
    if (meta_.step == total_steps_)
      throw SharedError(fmt::format("step {}, the last: {}", meta_.step, wrong));
    log_warning("step {}: {}", meta_.step, wrong);
  }
  EvaluationRow row{meta_.step, meta_.tokens, loss.mean(), 0};
  std::string more;
  if (result->preferences) {
    row.preference = columns_of(*result->preferences);
    more = fmt::format("{}, of {}", text_of(*row.preference),
                       counted(loss.valid, names_of(v.data.kind()).one));
  } else {
    row.perplexity = std::exp(row.loss);
    more = fmt::format("perplexity {:.3f}", row.perplexity);
  }
  at_root(trainer_.axes().world, Pace::slow, [&] { record_.add(v.name, row); });
  log_info("step {}: {} loss {:.4f}, {}", meta_.step, label, row.loss, more);
  return true;
}

}  // namespace trireme
