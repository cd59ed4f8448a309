#include "lib/report/trace_spans.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/base/vendor_text.hpp"

namespace trireme {

// What a span of the compute track is, in the words of the table of times; none: part of another.
static std::optional<Task> task_of(std::string_view name) {
  constexpr std::string_view waiting = "wait for ";
  if (name == "forward") return Task::forward;
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

TracedStep last_traced_step(std::string_view text, std::size_t most) {
  TracedStep traced;
  try {
    const auto trace = parse_json(text);
    const auto& events = JsonFields{trace}.array("traceEvents");
    std::map<int, std::pair<double, double>> window;  // of the step, by rank
    for (const auto& e : events) {
      if (e.at("ph") != "X") continue;
      const auto name = e.at("name").get<std::string>();
      if (!name.starts_with("step ")) continue;
      const auto step = std::stoll(name.substr(5));
      if (step > traced.step) window.clear();
      traced.step = std::max<std::int64_t>(traced.step, step);
      if (step == traced.step)
        window[e.at("pid")] = {e.at("ts"), e.at("ts").get<double>() + e.at("dur").get<double>()};
    }
    double origin = 1e300;
    for (const auto& [_, w] : window) origin = std::min(origin, w.first);
    for (const auto& e : events) {
      if (e.at("ph") != "X" || e.at("cat") != "compute") continue;
      const auto task = task_of(e.at("name").get<std::string>());
      const auto w = window.find(e.at("pid"));
      const double begin = e.at("ts"), end = begin + e.at("dur").get<double>();
      if (!task || w == window.end() || begin < w->second.first || end > w->second.second) continue;
      traced.bars.push_back({e.at("pid"), std::string(name_of(*task)),
                             e.at("args").value("microbatch", -1), (begin - origin) * 1e-3,
                             (end - origin) * 1e-3});
    }
  } catch (const std::exception& e) {
    fail("it is no trace of a run: {}", without_tag(e.what()));
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
