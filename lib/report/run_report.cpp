#include "lib/report/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/recovery_rows.hpp"
#include "lib/io/routing_rows.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/run_tables.hpp"
#include "lib/report/log_events.hpp"
#include "lib/report/thin.hpp"
#include "lib/report/trace_spans.hpp"
#include "lib/run/timing.hpp"

namespace trireme {

namespace fs = std::filesystem;
using Page = nlohmann::ordered_json;

namespace {

// A chart that is a thousand pixels wide cannot show more.
constexpr std::size_t stretches = 1000;
constexpr std::size_t most_bars = 6000;
constexpr std::uintmax_t most_trace_bytes = 200'000'000;

// Rounds to nine digits, which are more than a chart shows.
double rounded(double x) {
  return std::strtod(fmt::format("{:.9g}", x).c_str(), nullptr);
}

Page series_json(const std::vector<SeriesPoint>& all) {
  const auto points = thinned(all, stretches);
  Page step = Page::array(), tokens = Page::array(), value = Page::array();
  for (const auto& p : points) {
    step.push_back(p.step);
    tokens.push_back(p.tokens);
    value.push_back(rounded(p.value));
  }
  return {{"step", step},
          {"tokens", tokens},
          {"value", value},
          {"thinned", points.size() + 1 < all.size() && all.size() > 2 * stretches + 2}};
}

// Returns the series of a member of each row, or of a function's results for each row.
template <class Row, class Member>
Page column(const std::vector<Row>& rows, Member member) {
  std::vector<SeriesPoint> points;
  points.reserve(rows.size());
  for (const auto& r : rows) points.push_back({r.step, r.tokens, std::invoke(member, r)});
  return series_json(points);
}

// Returns a number about preferences from a row. Returns NaN, which series leave out, for rows
// without preferences.
template <double PreferenceColumns::*Member>
double of_pairs(const auto& row) {
  return row.preference ? (*row.preference).*Member : std::nan("");
}

class Reader {
 public:
  explicit Reader(const fs::path& run) : run_(run) {}

  Page read() {
    std::error_code e;
    require(fs::is_directory(run_, e), "{} is not a run directory", run_.string());
    auto path = fs::absolute(run_).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    json_["name"] = path.filename().string();
    json_["path"] = path.string();
    outcome();
    tables();
    marks();
    timing();
    trace();
    deck();
    json_["problems"] = problems_;
    return std::move(json_);
  }

 private:
  // Calls `work` for a file. An error becomes a problem of that file.
  template <class Work>
  void attempt(const char* file, Work work) {
    try {
      if (is_there(run_ / file))
        work(run_ / file);
      else
        problems_.push_back(fmt::format("{} is missing", file));
    } catch (const std::exception& e) {
      problems_.push_back(fmt::format("{}: {}", file, e.what()));
    }
  }

  void outcome() {
    json_["status"] = "unknown";
    for (const char* key : {"reason", "checkpoint", "machine"}) json_[key] = "";
    json_["step"] = 0;
    attempt("outcome.json", [&](const fs::path&) {
      const auto o = read_outcome(run_);
      require(o.has_value(), "it is damaged");
      json_["status"] = o->status;
      json_["reason"] = o->exit_reason;
      json_["step"] = o->step;
      json_["checkpoint"] = o->last_good_checkpoint;
      json_["machine"] = o->machine;
    });
  }

  void tables() {
    std::vector<HistoryRow> rows;
    std::map<std::string, std::vector<EvaluationRow>> by_set;
    std::vector<RoutingRow> routing;
    json_["quiet"] = nullptr;
    attempt("history.csv", [&](const fs::path& file) {
      const auto age = fs::file_time_type::clock::now() - fs::last_write_time(file);
      json_["quiet"] = std::max(0.0, std::chrono::duration<double>(age).count());
      rows = read_history(file);
    });
    for (const auto& set : evaluated_sets(run_))
      attempt(evaluation_table({}, set).c_str(),
              [&](const fs::path& file) { by_set[set] = read_evaluations(file); });
    const auto& evaluations = by_set[""];
    if (is_there(run_ / "routing.csv"))
      attempt("routing.csv", [&](const fs::path& file) { routing = read_routing(file); });
    json_["rows"] = rows.size();
    json_["tokens"] = rows.empty() ? 0 : rows.back().tokens;
    json_["trained_tokens"] = nullptr;
    if (!rows.empty() && rows.back().trained_tokens)
      json_["trained_tokens"] = *rows.back().trained_tokens;
    if (!rows.empty())
      json_["step"] = std::max(json_["step"].get<std::int64_t>(), rows.back().step);
    json_["series"] = {
        {"loss", column(rows, &HistoryRow::loss)},
        {"grad_norm", column(rows, &HistoryRow::grad_norm)},
        {"lr", column(rows, &HistoryRow::lr)},
        {"tokens_per_second", column(rows, &HistoryRow::tokens_per_second)},
        {"held_out", column(evaluations, &EvaluationRow::loss)},
        {"margin", column(rows, of_pairs<&PreferenceColumns::margin, HistoryRow>)},
        {"accuracy", column(rows, of_pairs<&PreferenceColumns::accuracy, HistoryRow>)},
        {"held_out_margin",
         column(evaluations, of_pairs<&PreferenceColumns::margin, EvaluationRow>)},
        {"held_out_accuracy",
         column(evaluations, of_pairs<&PreferenceColumns::accuracy, EvaluationRow>)},
        {"balance", column(routing, &RoutingRow::balance)},
        {"router_z", column(routing, &RoutingRow::z)},
        {"least_load", column(routing, &RoutingRow::least)},
        {"most_load", column(routing, &RoutingRow::most)}};
    for (const auto& [set, of_set] : by_set)
      if (!set.empty())
        json_["series"]["held_out[" + set + "]"] = column(of_set, &EvaluationRow::loss);
    for (const auto& r : rows)
      if (!std::isfinite(r.loss) || !std::isfinite(r.grad_norm)) not_finite_.push_back(r.step);
  }

  void marks() {
    LogEvents events;
    attempt("log", [&](const fs::path& file) { events = log_events(read_text(file)); });
    for (const auto step : not_finite_) events.skipped.try_emplace(step, "it is not finite");
    std::vector<std::int64_t> kept;
    if (is_there(run_ / "checkpoints"))
      attempt("checkpoints", [&](const fs::path& folder) {
        for (const auto& c : list_checkpoints(folder)) kept.push_back(c.step);
      });
    events.checkpoints.insert(kept.begin(), kept.end());
    Page checkpoints = Page::array();
    for (const auto step : events.checkpoints)
      checkpoints.push_back({{"step", step}, {"kept", std::ranges::count(kept, step) > 0}});
    const auto list = [](const auto& of_steps) {
      Page all = Page::array();
      for (const auto& [step, why] : of_steps) all.push_back({{"step", step}, {"why", why}});
      return all;
    };
    json_["marks"] = {{"checkpoints", checkpoints},      {"restarts", events.restarts},
                      {"skipped", list(events.skipped)}, {"stalled", list(events.stalled)},
                      {"slow", list(events.slow)},       {"rollbacks", list(events.rollbacks)},
                      {"phases", list(events.phases)},   {"batches", list(events.batches)}};
    json_["marks"]["recoveries"] = Page::array();
    if (is_there(run_ / "recoveries.csv"))
      attempt("recoveries.csv", [&](const fs::path&) {
        for (const auto& row : read_recoveries(run_))
          json_["marks"]["recoveries"].push_back(
              {{"step", row.step.value_or(row.last_step.value_or(0))},
               {"why", fmt::format("{}: {}", row.time, text_of(row))}});
      });
  }

  void timing() {
    json_["timing"] = Page::array();
    if (!is_there(run_ / "timing.json")) return;  // written when a process ends
    attempt("timing.json", [&](const fs::path& file) {
      for (const auto& process : parse_timing(read_text(file)))
        json_["timing"].push_back(to_json(process));
    });
  }

  void trace() {
    json_["trace"] = nullptr;
    std::error_code none;
    fs::path newest;
    for (fs::directory_iterator it(run_ / "trace", none), end; !none && it != end;
         it.increment(none))
      if (it->path().extension() == ".json") newest = std::max(newest, it->path());
    if (newest.empty()) return;
    const auto name = "trace/" + newest.filename().string();
    attempt(name.c_str(), [&](const fs::path& file) {
      require(fs::file_size(file) <= most_trace_bytes, "{} bytes are too many to show",
              fs::file_size(file));
      const auto traced = last_traced_step(read_text(file), most_bars);
      Page bars = Page::array();
      for (const auto& b : traced.bars)
        bars.push_back({b.rank, b.what, b.microbatch, rounded(b.begin), rounded(b.end)});
      json_["trace"] = {
          {"file", name}, {"step", traced.step}, {"left_out", traced.left_out}, {"bars", bars}};
    });
  }

  void deck() {
    json_["deck"] = "";
    json_["total_steps"] = 0;
    attempt("effective.toml", [&](const fs::path& file) {
      const auto text = read_text(file);
      json_["deck"] = text;
      json_["total_steps"] = parse_deck(text, file.string()).train.steps;
    });
  }

  fs::path run_;
  Page json_;
  std::vector<std::string> problems_;
  std::vector<std::int64_t> not_finite_;
};

}  // namespace

Page run_report(const fs::path& run) {
  return Reader(run).read();
}

}  // namespace trireme
