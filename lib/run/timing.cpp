#include "lib/run/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/base/counted.hpp"
#include "lib/base/json.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

using OrderedJson = nlohmann::ordered_json;

double RankTiming::wall() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double RunTiming::tokens_a_second() const {
  return steps_seconds > 0 ? static_cast<double>(tokens) / steps_seconds : 0;
}

static OrderedJson to_json(const RankTiming& r) {
  OrderedJson seconds, peak = OrderedJson::object();
  for (std::size_t t = 0; t < task_count; ++t)
    seconds[std::string(name_of(static_cast<Task>(t)))] = r.seconds[t];
  for (std::size_t k = 0; k < memory_kind_count; ++k)
    if (r.account.peak[k] > 0)
      peak[std::string(name_of(static_cast<MemoryKind>(k)))] = r.account.peak[k];
  return {{"rank", r.rank},
          {"pipe", r.at.pipe},
          {"data", r.at.data},
          {"seq", r.at.seq},
          {"seconds", seconds},
          {"peak_bytes_by_kind", peak},
          {"peak_bytes", r.account.peak_all},
          {"reserved_bytes", r.account.reserved},
          {"pinned_bytes", r.account.pinned_reserved},
          {"sent_bytes",
           {{"shard", r.sent.shard},
            {"seq", r.sent.seq},
            {"pipe", r.sent.pipe},
            {"expert", r.sent.expert}}}};
}

namespace {

int number_of(const JsonFields& f, const char* key, int low) {
  return static_cast<int>(f.integer(key, low, most_ranks));
}

// Reads an optional member. A task, memory kind or axis is missing if it was not measured or did
// not exist.
template <class T>
T optional_member(const Json& object, const std::string& name,
                  T (*read)(const Json&, const char*)) {
  const auto found = object.find(name);
  return found == object.end() ? T{} : read(*found, name.c_str());
}

std::size_t bytes_in(const Json& json, const char* what) {
  return static_cast<std::size_t>(integer(json, what));
}
std::int64_t count_in(const Json& json, const char* what) {
  return integer(json, what);
}
double number_in(const Json& json, const char* what) {
  return real(json, what);
}

RankTiming rank_from(const Json& json) {
  const JsonFields f{json};
  RankTiming r;
  r.rank = number_of(f, "rank", 0);
  r.at = {number_of(f, "pipe", 0), number_of(f, "data", 0), number_of(f, "seq", 0)};
  const auto &seconds = f.object("seconds"), &peak = f.object("peak_bytes_by_kind");
  for (std::size_t t = 0; t < task_count; ++t)
    r.seconds[t] = optional_member(seconds, std::string(name_of(static_cast<Task>(t))), number_in);
  for (std::size_t k = 0; k < memory_kind_count; ++k)
    r.account.peak[k] =
        optional_member(peak, std::string(name_of(static_cast<MemoryKind>(k))), bytes_in);
  r.account.peak_all = bytes_in(f.at("peak_bytes"), "peak_bytes");
  r.account.reserved = bytes_in(f.at("reserved_bytes"), "reserved_bytes");
  r.account.pinned_reserved = bytes_in(f.at("pinned_bytes"), "pinned_bytes");
  const JsonFields sent{f.object("sent_bytes")};
  r.sent = {sent.integer("shard"), sent.integer("seq"), sent.integer("pipe"),
            optional_member(f.object("sent_bytes"), "expert", count_in)};
  return r;
}

RunTiming process_from(const Json& json) {
  const JsonFields f{json};
  const JsonFields grid{f.object("grid")};
  RunTiming t;
  t.grid.pipe = number_of(grid, "pipe", 1);
  t.grid.data = number_of(grid, "data", 1);
  t.grid.seq = number_of(grid, "seq", 1);
  if (f.object("grid").contains("expert")) t.grid.expert = number_of(grid, "expert", 1);
  t.backend = f.text("backend");
  t.first_step = f.integer("first_step", 0, most_counted);
  t.last_step = f.integer("last_step", 0, most_counted);
  t.tokens = f.integer("tokens", 0, most_counted);
  t.steps_seconds = f.real("steps_seconds");
  t.flops_a_token = f.real("flops_per_token");
  t.peak_flops = f.real("peak_flops_per_rank");
  for (const auto& rank : f.array("ranks")) t.ranks.push_back(rank_from(rank));
  if (json.contains("recoveries")) {
    const JsonFields recoveries{f.object("recoveries")};
    t.recoveries = {recoveries.integer("count", 0, most_counted), recoveries.real("seconds"),
                    recoveries.integer("repeated_steps", 0, most_counted)};
  }
  return t;
}

}  // namespace

std::vector<RankTiming> gather_timing(const Axes& axes, const Account& account) {
  const RankTiming mine{axes.world.rank(), axes.at, Timesheet::seconds(), account, axes.traffic()};
  std::vector<RankTiming> all;
  for (const auto& text : axes.world.all_gather(to_json(mine).dump()))
    all.push_back(rank_from(parse_json(text)));
  return all;
}

std::string text_of(Task t) {
  switch (t) {
    case Task::reading:
      return "reading samples";
    case Task::device:
    case Task::pipeline:
      return fmt::format("waiting: {}", name_of(t));
    case Task::gather:
      return "waiting: all-gather";
    case Task::scatter:
      return "waiting: reduce-scatter";
    case Task::exchange:
      return "waiting: seq, experts";
    case Task::agreeing:
      return "waiting: global sync";
    default:
      return std::string(name_of(t));
  }
}

namespace {

struct Spread {
  double min, mean, max;
};

template <class F>
Spread spread(const std::vector<RankTiming>& ranks, F f) {
  Spread s{f(ranks[0]), 0, f(ranks[0])};
  for (const auto& r : ranks) {
    const double x = f(r);
    s = {std::min(s.min, x), s.mean + x / static_cast<double>(ranks.size()), std::max(s.max, x)};
  }
  return s;
}

std::string text_of(MemoryKind k) {
  switch (k) {
    case MemoryKind::weights:
    case MemoryKind::gradients:
      return std::string(name_of(k));
    case MemoryKind::optimizer:
      return "optimizer state";
    case MemoryKind::gathered:
      return "gathered weights";
    case MemoryKind::saved:
      return "saved activations";
    case MemoryKind::transient:
      return "transient results";
    case MemoryKind::boundary:
      return "stage boundary data";
    case MemoryKind::staging:
      return "message staging";
    case MemoryKind::snapshot:
      return "checkpoint snapshot";
    case MemoryKind::offloaded:
      return "offloaded activations";
    case MemoryKind::workspace:
      return "kernel workspace";
  }
  return {};
}

std::string row(const std::string& what, const Spread& s, double all) {
  return fmt::format("  {:<24}{:>12.3f}{:>12.3f}{:>12.3f}{:>8.2f}", what, s.min, s.mean, s.max,
                     all > 0 ? 100 * s.mean / all : 0);
}

std::string memory_row(std::string_view what, const Spread& s) {
  return fmt::format("  {:<24}{:>12.2f}{:>12.2f}{:>12.2f}", what, s.min / (1 << 20),
                     s.mean / (1 << 20), s.max / (1 << 20));
}

std::string rate_line(const RunTiming& t) {
  const double each = t.tokens_a_second() * t.flops_a_token / static_cast<double>(t.ranks.size());
  auto text = fmt::format(
      "throughput of training steps: {:.0f} tokens/s on all ranks, {:.4g} GFLOP/s per rank",
      t.tokens_a_second(), each * 1e-9);
  if (t.peak_flops > 0) text += fmt::format(" ({:.1f}% of the peak)", 100 * each / t.peak_flops);
  return text;
}

}  // namespace

std::vector<std::string> timing_lines(const RunTiming& t) {
  const auto wall = spread(t.ranks, [](const auto& r) { return r.wall(); });
  std::vector<std::string> lines = {
      fmt::format("time of {} by task, in seconds", counted(t.ranks.size(), "rank")),
      fmt::format("  {:<24}{:>12}{:>12}{:>12}{:>8}", "", "min", "mean", "max", "%")};
  for (std::size_t i = 0; i < task_count; ++i) {
    const auto s = spread(t.ranks, [&](const auto& r) { return r.seconds[i]; });
    if (s.max > 0) lines.push_back(row(text_of(static_cast<Task>(i)), s, wall.mean));
  }
  lines.push_back(row("total", wall, wall.mean));
  lines.emplace_back("peak memory per rank, in MiB");
  for (std::size_t k = 0; k < memory_kind_count; ++k) {
    const auto s = spread(t.ranks, [&](const auto& r) { return double(r.account.peak[k]); });
    if (s.max > 0) lines.push_back(memory_row(text_of(static_cast<MemoryKind>(k)), s));
  }
  lines.push_back(memory_row("peak of the total", spread(t.ranks, [](const auto& r) {
                               return double(r.account.peak_all);
                             })));
  if (t.steps_seconds > 0) lines.push_back(rate_line(t));
  if (const auto& r = t.recoveries; r.count > 0)
    lines.push_back(fmt::format(
        "{} of the run so far: {:.0f} s from failed starts to the next ones, {} repeated",
        r.count == 1 ? "1 recovery" : fmt::format("{} recoveries", r.count), r.seconds,
        counted(r.repeated_steps, "step")));
  return lines;
}

OrderedJson to_json(const RunTiming& t) {
  OrderedJson ranks = OrderedJson::array();
  for (const auto& r : t.ranks) ranks.push_back(to_json(r));
  OrderedJson json = {{"first_step", t.first_step},
                      {"last_step", t.last_step},
                      {"backend", t.backend},
                      {"grid",
                       {{"pipe", t.grid.pipe},
                        {"data", t.grid.data},
                        {"seq", t.grid.seq},
                        {"expert", t.grid.expert}}},
                      {"tokens", t.tokens},
                      {"steps_seconds", t.steps_seconds},
                      {"tokens_per_second", t.tokens_a_second()},
                      {"flops_per_token", t.flops_a_token},
                      {"peak_flops_per_rank", t.peak_flops}};
  if (const auto& r = t.recoveries; r.count > 0)
    json["recoveries"] = {
        {"count", r.count}, {"seconds", r.seconds}, {"repeated_steps", r.repeated_steps}};
  json["ranks"] = ranks;
  return json;
}

std::vector<RunTiming> parse_timing(std::string_view text) {
  const auto json = parse_json(text);
  std::vector<RunTiming> all;
  for (const auto& process : JsonFields{json}.array("processes"))
    all.push_back(process_from(process));
  return all;
}

void add_timing(const std::filesystem::path& file, const RunTiming& t) {
  std::vector<RunTiming> before;
  if (is_there(file)) {
    const auto text = read_text(file);
    try {
      before = parse_timing(text);
    } catch (const Error& e) {
      log_warning("{} is damaged ({}): it is replaced, and the times of earlier processes are lost",
                  file.string(), e.what());
    }
  }
  OrderedJson all = OrderedJson::array();
  for (const auto& process : before) all.push_back(to_json(process));
  all.push_back(to_json(t));
  replace_atomically(file, OrderedJson{{"processes", all}}.dump(1) + "\n");
}

}  // namespace trireme
