#include "lib/predict/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "lib/base/counted.hpp"
#include "lib/base/sizes.hpp"
#include "lib/plan/rank_kinds.hpp"
#include "lib/predict/recorder.hpp"
#include "lib/run/step_trace.hpp"
#include "lib/train/batch_ramp.hpp"
#include "lib/train/work.hpp"

namespace trireme {

std::vector<Recording> record_kinds(const PlanInput& in, const DryTarget& target,
                                    const MachineModel& machine) {
  const Placement placement{static_cast<int>(machine.ranks_of_node)};
  std::vector<Recording> all;
  const RankKinds kinds(in);
  for (const int rank : kinds.ranks()) all.push_back(record_step(in, target, placement, rank));
  return all;
}

std::map<std::string, double> operation_seconds(const MachineModel& machine,
                                                std::span<const Recording> kinds) {
  std::map<std::string, double> longest;
  double most = 0;
  for (const auto& r : kinds) {
    std::map<std::string, double> of_kind;
    double all = 0;
    for (const auto& a : r.actions) {
      if (a.what != Action::What::compute) continue;
      const auto& workload = r.workloads[static_cast<std::size_t>(a.index)];
      const double seconds = seconds_of(machine, workload);
      of_kind[std::string(workload.name)] += seconds;
      all += seconds;
    }
    if (all > most) most = all, longest = std::move(of_kind);
  }
  return longest;
}

// Returns the number of checkpoints in a run, including the one at its end.
static std::int64_t checkpoints_of(const RunInput& run, double step_seconds) {
  if (run.steps <= 0) return 0;
  // Each checkpoint restarts the interval in minutes, so the shorter interval decides.
  double every = std::numeric_limits<double>::infinity();
  if (run.checkpoint.every_steps > 0) every = static_cast<double>(run.checkpoint.every_steps);
  if (run.checkpoint.every_minutes > 0)
    every =
        std::min(every, std::max(1.0, std::ceil(60 * run.checkpoint.every_minutes / step_seconds)));
  const auto others = std::ranges::count_if(run.decay_ends, [&](std::int64_t step) {
    return run.checkpoint.every_steps <= 0 || step % run.checkpoint.every_steps != 0;
  });
  return 1 + static_cast<std::int64_t>(static_cast<double>(run.steps - 1) / every) + others;
}

double saved_by_ramp(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                     std::int64_t steps, double step_seconds) {
  const BatchRamp ramp(in.train, context_of(in.setup));
  auto input = in;
  input.train.batch = ramp.batch(0);
  if (input.train.batch == in.train.batch) return 0;
  const double least = simulate(machine, record_kinds(input, target, machine)).seconds;
  const double each = (step_seconds - least) /
                      static_cast<double>(in.train.batch - input.train.batch);  // of a sample
  double saved = 0;
  for (std::int64_t step = 0; step < steps;) {
    const auto end = std::min(steps, ramp.next_change(step));
    saved += static_cast<double>(end - step) * each *
             static_cast<double>(in.train.batch - ramp.batch(step));
    step = end;
  }
  return saved;
}

// Sets the times of a memory copy. No machine file says how fast a device's state is copied to its
// host.
static void predict_copies(Prediction& p, const PlanInput& in, const RunInput& run,
                           const MachineModel& m, SavedBytes bytes) {
  if (run.checkpoint.memory_every == 0) return;
  if (m.backend == "host" && m.memory_bandwidth) p.copy_wait = 2 * bytes.all / *m.memory_bandwidth;
  if (in.grid.ranks() > m.ranks_of_node && m.far.bandwidth)
    p.copy_transfer = bytes.changing / share_of(m, m.far, "far");
  p.run += static_cast<double>(run.steps / run.checkpoint.memory_every) * p.copy_wait;
}

Prediction predict(const PlanInput& in, const RunInput& run, const MachineModel& m,
                   const Simulated& s, SavedBytes bytes) {
  Prediction p;
  p.step = s.seconds;
  const auto positions = static_cast<double>(in.train.batch * context_of(in.setup));
  p.tokens_a_second = in.documents.filled * positions / p.step;
  p.targets_a_second = in.documents.targets * positions / p.step;
  const auto spec = make_spec(in.setup.model, in.setup.adapter);
  if (const auto peak = peak_of(m, in.setup.compute, run.tf32))
    p.utilisation =
        flops_of_token(spec, context_of(in.setup)) * p.tokens_a_second / (*peak * in.grid.ranks());
  const auto& model = in.setup.model;
  const bool documents = in.setup.attention == AttentionSpan::document &&
                         !times_documents(m, in.setup.compute, model.head_dim);
  p.slower_attention = m.backend == "cuda" && in.setup.compute == DType::bf16 &&
                       (documents || model.attention_softcap > 0);
  p.lost = lost_in(s);
  p.checkpoints = checkpoints_of(run, p.step);
  const double steps = static_cast<double>(run.steps) * p.step - run.saved;
  p.run = steps;
  predict_copies(p, in, run, m, bytes);
  if (m.disk_write) {
    const double write = bytes.all / *m.disk_write;
    // An asynchronous checkpoint is written from a copy, which is made first. The run only waits if
    // the next checkpoint is due before this one is written, and for the last one. No machine file
    // says how fast a device's state is copied to its host.
    const bool known = m.backend == "host" && m.memory_bandwidth;
    const double copy = known ? 2 * bytes.all / *m.memory_bandwidth : 0;
    const double between =
        p.checkpoints > 1 ? steps / static_cast<double>(p.checkpoints - 1) : steps;
    p.checkpoint = run.checkpoint.async ? copy + std::max(0.0, write - between) : write;
    if (p.checkpoints > 0) p.run += static_cast<double>(p.checkpoints - 1) * p.checkpoint + write;
  }
  return p;
}

static std::string duration_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.2f} ms", 1e3 * seconds);
  if (seconds < 600) return fmt::format("{:.2f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

// Lists the operations that take most time.
static std::string longest_text(const std::map<std::string, double>& operations) {
  std::vector<std::pair<double, std::string>> all;
  for (const auto& [name, seconds] : operations) all.emplace_back(seconds, name);
  std::ranges::sort(all, std::greater());
  all.resize(std::min<std::size_t>(all.size(), 4));
  std::string text;
  for (const auto& [seconds, name] : all)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, duration_text(seconds));
  return text;
}

std::string prediction_text(const Prediction& p, const MachineModel& m) {
  std::string text =
      fmt::format("predicted on {}{}\n", m.name,
                  m.measured ? "" : " (not measured by `trireme calibrate`: " + m.source + ")");
  const auto row = [&](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<20} {}\n", what, value);
  };
  row("step", duration_text(p.step));
  if (p.slower_attention)
    row("",
        "too low: attention within documents or with a soft cap is slower than the rate in the "
        "file");
  row("tokens/s", fmt::format("{:.0f}", p.tokens_a_second));
  if (p.targets_a_second > 0 && p.targets_a_second < p.tokens_a_second)
    row("trained tokens/s", fmt::format("{:.0f}", p.targets_a_second));
  row("FLOP utilization", p.utilisation > 0 ? fmt::format("{:.1f}%", 100 * p.utilisation)
                                            : "unknown: the machine file has no peak rate");
  row("bubble", fmt::format("{:.1f}%", 100 * p.bubble_share()));
  for (int a = 0; a < axis_count; ++a)
    if (const double x = p.lost.exposed[static_cast<std::size_t>(a)]; x > 0)
      row(fmt::format("exposed, {}", name_of(static_cast<Axis>(a))),
          fmt::format("{} ({:.1f}%)", duration_text(x), 100 * x / p.step));
  if (p.lost.starved > 0)
    row("waiting for host",
        fmt::format("{} ({:.1f}%)", duration_text(p.lost.starved), 100 * p.lost.starved / p.step));
  if (p.run > 0)
    row("whole run",
        m.disk_write
            ? fmt::format("{}, with {}", duration_text(p.run), counted(p.checkpoints, "checkpoint"))
            : fmt::format("{}, without checkpoints: the machine file has no disk.write",
                          duration_text(p.run)));
  if (p.copy_wait > 0 || p.copy_transfer > 0)
    row("memory copy", fmt::format("{} of training, {} of the links between nodes",
                                   duration_text(p.copy_wait), duration_text(p.copy_transfer)));
  if (!p.operations.empty()) row("longest operations", longest_text(p.operations));
  if (const auto& g = p.generation) {
    row("prompt", duration_text(g->prefill));
    row("generated token", fmt::format("{}, for {} at a time", duration_text(g->token),
                                       counted(g->sequences, "text")));
  }
  return text;
}

nlohmann::ordered_json prediction_json(const Prediction& p, const MachineModel& m) {
  nlohmann::ordered_json exposed;
  for (int a = 0; a < axis_count; ++a)
    exposed[std::string(name_of(static_cast<Axis>(a)))] =
        p.lost.exposed[static_cast<std::size_t>(a)];
  nlohmann::ordered_json json{{"machine", m.name},
                              {"measured", m.measured},
                              {"step_seconds", p.step},
                              {"slower_attention", p.slower_attention},
                              {"tokens_per_second", p.tokens_a_second},
                              {"bubble", p.bubble_share()},
                              {"exposed_seconds", exposed},
                              {"seconds_waiting_for_host", p.lost.starved},
                              {"run_seconds", p.run},
                              {"checkpoints", p.checkpoints}};
  json["targets_per_second"] =
      p.targets_a_second > 0 ? nlohmann::ordered_json(p.targets_a_second) : nullptr;
  json["flop_utilisation"] = p.utilisation > 0 ? nlohmann::ordered_json(p.utilisation) : nullptr;
  json["checkpoint_seconds"] = m.disk_write ? nlohmann::ordered_json(p.checkpoint) : nullptr;
  json["memory_copy_seconds"] = {{"training", p.copy_wait}, {"links", p.copy_transfer}};
  json["operation_seconds"] = p.operations;
  if (const auto& g = p.generation)
    json["generation"] = {
        {"sequences", g->sequences}, {"prefill_seconds", g->prefill}, {"token_seconds", g->token}};
  return json;
}

static std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

// Returns the span of a scope. The span lasts from the start of the first operation to the end of
// the last one. For a scope without operations, it lasts as long as the host worked on the scope.
static TraceSpan span_of(const Scope& s, const Recording& r, const KindTimes& t) {
  double begin = 1e300, end = 0;
  for (auto i = s.begin; i < s.end; ++i) {
    const auto& p = t.actions[static_cast<std::size_t>(i)];
    const auto& a = r.actions[static_cast<std::size_t>(i)];
    if (a.what != Action::What::compute || a.queue != Queue::compute) continue;
    begin = std::min(begin, p.begin);
    end = std::max(end, p.end);
  }
  if (end == 0 && s.begin < s.end) {
    begin = t.actions[static_cast<std::size_t>(s.begin)].begin;
    end = t.actions[static_cast<std::size_t>(s.end - 1)].end;
  }
  if (s.begin >= s.end) begin = end = 0;
  return {Queue::compute, s.name, s.unit, s.microbatch, nanoseconds(begin), nanoseconds(end)};
}

std::string prediction_trace(std::span<const Recording> kinds, const Simulated& s) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto& r = kinds[k];
    const auto& times = s.kinds[k];
    std::vector<TraceSpan> spans;
    for (const auto& scope : r.scopes)
      if (auto span = span_of(scope, r, times); span.end > span.begin)
        spans.push_back(std::move(span));
    for (std::size_t i = 0; i < r.transfers.size(); ++i) {
      const auto& t = r.transfers[i];
      if (t.ranks == 1) continue;
      spans.push_back({t.queue, std::string(name_of(t.doing)), t.unit, t.microbatch,
                       nanoseconds(times.transfers[i].begin), nanoseconds(times.transfers[i].end)});
    }
    for (const auto& w : times.waits) {
      const auto* t = w.transfer < 0 ? nullptr : &r.transfers[static_cast<std::size_t>(w.transfer)];
      spans.push_back({Queue::compute,
                       t ? fmt::format("wait for {}", name_of(t->doing)) : "wait for agreement",
                       t ? t->unit : "", t ? t->microbatch : -1, nanoseconds(w.period.begin),
                       nanoseconds(w.period.end)});
    }
    spans.push_back({Queue::compute, "step", "", -1, 0, nanoseconds(times.end)});
    text +=
        (k > 0 ? ",\n" : "") + chrome_events(r.rank,
                                             fmt::format("rank {} (pipe {}, data {}, seq {})",
                                                         r.rank, r.at.pipe, r.at.data, r.at.seq),
                                             spans, 0);
  }
  return text + "\n]}\n";
}

}  // namespace trireme
