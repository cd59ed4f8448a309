#include "lib/run/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/base/counted.hpp"
#include "lib/io/posix_file.hpp"

namespace trireme {

using Json = nlohmann::ordered_json;

double RankTiming::wall() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double RunTiming::tokens_a_second() const {
  return steps_seconds > 0 ? static_cast<double>(tokens) / steps_seconds : 0;
}

static Json to_json(const RankTiming& r) {
  Json seconds, peak;
  for (std::size_t t = 0; t < task_count; ++t)
    seconds[std::string(name_of(static_cast<Task>(t)))] = r.seconds[t];
  for (std::size_t k = 0; k < kind_count; ++k)
    if (r.account.peak[k] > 0) peak[std::string(name_of(static_cast<Kind>(k)))] = r.account.peak[k];
  return {{"rank", r.rank},
          {"pipe", r.at.pipe},
          {"data", r.at.data},
          {"seq", r.at.seq},
          {"seconds", seconds},
          {"peak_bytes_by_kind", peak},
          {"peak_bytes", r.account.peak_all},
          {"reserved_bytes", r.account.reserved},
          {"pinned_bytes", r.account.pinned_reserved},
          {"sent_bytes", {{"shard", r.sent.shard}, {"seq", r.sent.seq}, {"pipe", r.sent.pipe}}}};
}

static RankTiming rank_from(const Json& j) {
  RankTiming r;
  r.rank = j.at("rank");
  r.at = {j.at("pipe"), j.at("data"), j.at("seq")};
  for (std::size_t t = 0; t < task_count; ++t)
    r.seconds[t] = j.at("seconds").at(std::string(name_of(static_cast<Task>(t))));
  for (std::size_t k = 0; k < kind_count; ++k)
    r.account.peak[k] =
        j.at("peak_bytes_by_kind").value(std::string(name_of(static_cast<Kind>(k))), std::size_t{});
  r.account.peak_all = j.at("peak_bytes");
  r.account.reserved = j.at("reserved_bytes");
  r.account.pinned_reserved = j.at("pinned_bytes");
  const auto& sent = j.at("sent_bytes");
  r.sent = {sent.at("shard"), sent.at("seq"), sent.at("pipe")};
  return r;
}

std::vector<RankTiming> gather_timing(const Axes& axes, const Account& account) {
  const RankTiming mine{axes.world.rank(), axes.at, Timesheet::seconds(), account, axes.traffic()};
  std::vector<RankTiming> all;
  for (const auto& text : axes.world.all_gather(to_json(mine).dump()))
    all.push_back(rank_from(Json::parse(text)));
  return all;
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

std::string text_of(Task t) {
  switch (t) {
    case Task::reading:
      return "reading samples";
    case Task::device:
    case Task::gather:
    case Task::scatter:
    case Task::exchange:
    case Task::pipeline:
      return fmt::format("waiting: {}", name_of(t));
    case Task::agreeing:
      return "waiting: agreement";
    default:
      return std::string(name_of(t));
  }
}

std::string row(const std::string& what, const Spread& s, double all) {
  return fmt::format("  {:<20}{:>12.3f}{:>12.3f}{:>12.3f}{:>8.2f}", what, s.min, s.mean, s.max,
                     all > 0 ? 100 * s.mean / all : 0);
}

std::string memory_row(std::string_view what, const Spread& s) {
  return fmt::format("  {:<20}{:>12.2f}{:>12.2f}{:>12.2f}", what, s.min / (1 << 20),
                     s.mean / (1 << 20), s.max / (1 << 20));
}

std::string rate_line(const RunTiming& t) {
  const double each = t.tokens_a_second() * t.flops_a_token / static_cast<double>(t.ranks.size());
  auto text = fmt::format("{:.0f} tokens/s, {:.4g} GFLOP/s of the model a rank",
                          t.tokens_a_second(), each * 1e-9);
  if (t.peak_flops > 0)
    text += fmt::format(", {:.1f}% of the machine's peak", 100 * each / t.peak_flops);
  return text + ", while steps were made";
}

}  // namespace

std::vector<std::string> timing_lines(const RunTiming& t) {
  const auto wall = spread(t.ranks, [](const auto& r) { return r.wall(); });
  std::vector<std::string> lines = {
      fmt::format("time of {}, in seconds", counted(t.ranks.size(), "rank")),
      fmt::format("  {:<20}{:>12}{:>12}{:>12}{:>8}", "", "min", "mean", "max", "%")};
  for (std::size_t i = 0; i < task_count; ++i) {
    const auto s = spread(t.ranks, [&](const auto& r) { return r.seconds[i]; });
    if (s.max > 0) lines.push_back(row(text_of(static_cast<Task>(i)), s, wall.mean));
  }
  lines.push_back(row("all", wall, wall.mean));
  lines.emplace_back("peak of memory, in MiB");
  for (std::size_t k = 0; k < kind_count; ++k) {
    const auto s = spread(t.ranks, [&](const auto& r) { return double(r.account.peak[k]); });
    if (s.max > 0) lines.push_back(memory_row(name_of(static_cast<Kind>(k)), s));
  }
  lines.push_back(memory_row(
      "all, at a time", spread(t.ranks, [](const auto& r) { return double(r.account.peak_all); })));
  if (t.steps_seconds > 0) lines.push_back(rate_line(t));
  return lines;
}

void add_timing(const std::filesystem::path& file, const RunTiming& t) {
  Json all = Json::array();
  try {
    if (is_there(file)) all = Json::parse(read_text(file)).at("processes");
  } catch (const Json::exception&) {
    all = Json::array();
  }
  Json ranks = Json::array();
  for (const auto& r : t.ranks) ranks.push_back(to_json(r));
  all.push_back({{"first_step", t.first_step},
                 {"last_step", t.last_step},
                 {"backend", t.backend},
                 {"grid", {{"pipe", t.grid.pipe}, {"data", t.grid.data}, {"seq", t.grid.seq}}},
                 {"tokens", t.tokens},
                 {"steps_seconds", t.steps_seconds},
                 {"tokens_per_second", t.tokens_a_second()},
                 {"flops_per_token", t.flops_a_token},
                 {"peak_flops_per_rank", t.peak_flops},
                 {"ranks", ranks}});
  replace_atomically(file, Json{{"processes", all}}.dump(1) + "\n");
}

}  // namespace trireme
