#include "lib/report/trace_spans.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/json.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/base/timesheet.hpp"

namespace trireme {

// What a span of the compute track is, in the words of the table of times; none: part of another.
static std::optional<Task> task_of(std::string_view name) {
  constexpr std::string_view waiting = "wait for ";
  if (name == "forward" || name == "log-probabilities") return Task::forward;
  if (name == "backward" || name == "input gradients" || name == "weight gradients")
    return Task::backward;
  if (name == "optimizer" || name == "gradient norm") return Task::optimizer;
  if (name == "read samples") return Task::reading;
  if (!name.starts_with(waiting)) return std::nullopt;
  name.remove_prefix(waiting.size());
  if (name == "gather") return Task::gather;
  if (name == "scatter" || name == "tie") return Task::scatter;
  if (name == "exchange") return Task::exchange;
  if (name == "send" || name == "receive") return Task::pipeline;
  return Task::agreeing;
}

namespace {

// A span of the trace: what a rank did when, in microseconds.
struct Span {
  explicit Span(const Json& event) : fields{event} {
    if (fields.text("ph") != "X") return;
    name = fields.text("name");
    rank = static_cast<int>(fields.integer("pid", 0, most_ranks));
    begin = fields.real("ts");
    end = begin + fields.real("dur");
  }
  std::int64_t microbatch() const {
    const JsonFields args{fields.object("args")};
    return args.json.contains("microbatch") ? args.integer("microbatch", -1, INT32_MAX) : -1;
  }
  // The N of "step N", none for another span.
  std::optional<std::int64_t> step() const {
    constexpr std::string_view word = "step ";
    if (!name.starts_with(word)) return {};
    const auto n = number_in<std::int64_t>(std::string_view(name).substr(word.size()));
    require(n && *n >= 0, "\"{}\" is not a step", escaped(name));
    return n;
  }

  JsonFields fields;
  std::string name;  // empty: another kind of event
  int rank = 0;
  double begin = 0, end = 0;
};

TracedStep step_of(const Json& events) {
  TracedStep traced;
  std::map<int, std::pair<double, double>> window;  // of the step, by rank
  for (const auto& event : events) {
    const Span span(event);
    const auto step = span.step();
    if (!step) continue;
    if (*step > traced.step) window.clear();
    traced.step = std::max(traced.step, *step);
    if (*step == traced.step) window[span.rank] = {span.begin, span.end};
  }
  double origin = 1e300;
  for (const auto& [_, w] : window) origin = std::min(origin, w.first);
  for (const auto& event : events) {
    const Span span(event);
    const auto task = task_of(span.name);
    if (!task || span.fields.text("cat") != "compute") continue;
    const auto w = window.find(span.rank);
    if (w == window.end() || span.begin < w->second.first || span.end > w->second.second) continue;
    traced.bars.push_back({span.rank, std::string(name_of(*task)),
                           static_cast<int>(span.microbatch()), (span.begin - origin) * 1e-3,
                           (span.end - origin) * 1e-3});
  }
  return traced;
}

}  // namespace

TracedStep last_traced_step(std::string_view text, std::size_t most) {
  TracedStep traced;
  try {
    const auto trace = parse_json(text);
    traced = step_of(JsonFields{trace}.array("traceEvents"));
  } catch (const Error& e) {
    fail("it is not a trace of a run: {}", e.what());
  }
  std::ranges::stable_sort(traced.bars, std::greater(),
                           [](const TraceBar& b) { return b.end - b.begin; });
  if (traced.bars.size() > most) {
    traced.left_out = traced.bars.size() - most;
    traced.bars.resize(most);
  }
  std::ranges::stable_sort(traced.bars, {}, &TraceBar::begin);
  return traced;
}

}  // namespace trireme
