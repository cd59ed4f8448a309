#include "lib/run/step_trace.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/launch/clocks.hpp"

namespace trireme {

StepTrace::StepTrace(const Axes& axes, TraceConfig config, std::filesystem::path folder)
    : axes_(axes), config_(std::move(config)), folder_(std::move(folder)) {}

bool StepTrace::mine() const {
  const auto& r = config_.ranks;
  return r.empty() || std::ranges::find(r, axes_.world.rank()) != r.end();
}

void StepTrace::begin(std::int64_t step) {
  const auto& s = config_.steps;
  if (s.empty() || step < s[0] || step > s[1]) return;
  if (first_ == 0) {
    offset_ = launch::offset_to_root(axes_.world);
    first_ = step;
  }
  last_ = step;
  begun_ = Trace::nanoseconds();
  if (mine()) Trace::start();
}

void StepTrace::end(std::int64_t step) {
  if (last_ != step) return;
  if (Trace::on()) {
    auto spans = Trace::stop();
    spans.push_back(
        {Queue::compute, fmt::format("step {}", step), "", -1, begun_, Trace::nanoseconds()});
    for (auto& span : spans) {
      span.begin += offset_;
      span.end += offset_;
    }
    spans_.insert(spans_.end(), std::make_move_iterator(spans.begin()),
                  std::make_move_iterator(spans.end()));
  }
  if (step == config_.steps[1]) write();
}

void StepTrace::close() {
  if (first_ > 0) return write();
  if (!config_.steps.empty())
    log_warning("no trace is written: this run executed none of the steps {} to {}",
                config_.steps[0], config_.steps[1]);
}

// Returns the track of a span. A track is free after the span on it has ended. All spans of the
// compute queue are on one track.
static int free_track(std::vector<std::int64_t>& ends, const TraceSpan& span) {
  const auto it = std::ranges::find_if(ends, [&](auto end) { return end <= span.begin; });
  if (it == ends.end() || span.queue == Queue::compute) {
    if (ends.empty() || span.queue != Queue::compute) ends.push_back(span.end);
    return static_cast<int>(ends.size()) - 1;
  }
  *it = span.end;
  return static_cast<int>(it - ends.begin());
}

static std::string event(const TraceSpan& s, int rank, int track, std::int64_t origin) {
  nlohmann::ordered_json args = nlohmann::ordered_json::object();
  if (!s.unit.empty()) args["unit"] = s.unit;
  if (s.microbatch >= 0) args["microbatch"] = s.microbatch;
  return fmt::format(
      R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{}}})",
      nlohmann::json(s.name).dump(), name_of(s.queue), rank, track,
      static_cast<double>(s.begin - origin) * 1e-3, static_cast<double>(s.end - s.begin) * 1e-3,
      args.dump());
}

static std::string name_event(const char* what, int rank, int track, const std::string& name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                     rank, track, nlohmann::json(name).dump());
}

std::string chrome_events(int rank, const std::string& process, std::span<const TraceSpan> spans,
                          std::int64_t origin) {
  constexpr int tracks_a_queue = 1000;
  std::vector<const TraceSpan*> order;
  for (const auto& s : spans) order.push_back(&s);
  // Put outer spans before the spans inside them.
  std::ranges::stable_sort(order, [](const TraceSpan* a, const TraceSpan* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
  });
  std::array<std::vector<std::int64_t>, queue_count> ends;
  auto text = name_event("process_name", rank, 0, process);
  for (const auto* s : order) {
    auto& tracks = ends[static_cast<std::size_t>(s->queue)];
    const auto known = tracks.size();
    const int n = free_track(tracks, *s);
    const int track = static_cast<int>(s->queue) * tracks_a_queue + n;
    if (tracks.size() > known)
      text += ",\n" + name_event("thread_name", rank, track,
                                 n == 0 ? std::string(name_of(s->queue))
                                        : fmt::format("{} {}", name_of(s->queue), n + 1));
    text += ",\n" + event(*s, rank, track, origin);
  }
  return text;
}

void StepTrace::write() {
  const auto& world = axes_.world;
  const auto steps = fmt::format("{:08}-{:08}", first_, last_);
  first_ = 0;
  config_.steps.clear();
  const auto spans = std::exchange(spans_, {});
  double before = -9e18;  // negated begin of the earliest span
  for (const auto& s : spans) before = std::max(before, -static_cast<double>(s.begin));
  world.all_reduce_max({&before, 1});
  const auto& at = axes_.at;
  const auto mine = spans.empty()
                        ? ""
                        : chrome_events(world.rank(),
                                        fmt::format("rank {} (pipe {}, data {}, seq {})",
                                                    world.rank(), at.pipe, at.data, at.seq),
                                        spans, -static_cast<std::int64_t>(before));
  double bytes = static_cast<double>(mine.size());
  world.all_reduce({&bytes, 1});
  if (bytes > 1e9) {
    log_warning(
        "no trace is written, because it would take {:.1f} GB: shorten the range in "
        "run.trace_steps, or list fewer ranks in run.trace_ranks",
        bytes * 1e-9);
    return;
  }
  const auto all = world.all_gather(mine);
  if (world.rank() != 0) return;
  const auto file = folder_ / fmt::format("steps-{}.json", steps);
  try {
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (const auto& events : all)
      if (!events.empty()) text += (text.ends_with('}') ? ",\n" : "") + events;
    make_directory(folder_);
    replace_atomically(file, text + "\n]}\n");
    log_info("trace saved in {}", file.string());
  } catch (const Error& e) {
    log_warning("no trace is written: {}", e.what());
  }
}

}  // namespace trireme
