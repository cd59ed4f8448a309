// The `trireme report RUN... -o FILE` command: writes a web page about runs.
#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/version.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/deck/teacher.hpp"
#include "lib/report/page.hpp"
#include "lib/report/run_report.hpp"

namespace trireme {

namespace {

using Json = nlohmann::ordered_json;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output = "report.html";
  ExistingFile existing = ExistingFile::stays;
};

// Returns the plan that `trireme plan` computes for the run's deck and the backend that the run
// used.
Json plan_of(Deck of_run, const Json& run) {
  if (!run.at("timing").empty()) of_run.run.backend = run.at("timing").back().at("backend");
  const auto ranks = of_run.parallel.pipe * of_run.parallel.data * of_run.parallel.seq;
  require(ranks > 0, "its deck does not contain the number of ranks");
  const auto vocab = of_run.model.vocab > 0 ? 0 : vocabulary_of(of_run.data, of_run.model.vocab);
  const auto deck = resolve(std::move(of_run), {.ranks = ranks, .vocab = vocab});
  const auto choice = backend_choice(deck, {});
  auto target = dry_target(choice);
  target.capacity = std::size_t{1} << 60;
  const auto input =
      plan_input_of(deck, compute_type(choice, deck.precision.compute), transport_of(deck, choice),
                    teacher_of(deck), document_weights(deck.data));
  return Json::parse(plan_json(make_plan(input, target), input, target));
}

void add_plan_to(Json& run, const Deck& deck) {
  try {
    run["plan"] = plan_of(deck, run);
  } catch (const std::exception& e) {
    run["problems"].push_back(fmt::format("the page contains no plan for this run: {}", e.what()));
  }
}

int report(const ReportArguments& a) {
  require_output(a.output, report_page_file, a.existing);
  Json runs = Json::array();
  std::optional<Deck> first;  // the first run's, with which others are compared
  for (const auto& path : a.runs) {
    require(
        std::ranges::any_of(std::array{"history.csv", "outcome.json", "log"},
                            [&](const char* name) {
                              return std::filesystem::exists(std::filesystem::path(path) / name);
                            }),
        "{} is not a run directory: it contains none of the files history.csv, outcome.json and "
        "log",
        path);
    auto run = run_report(path);
    run["plan"] = nullptr;
    run["differences"] = nullptr;
    if (const auto text = run.at("deck").get<std::string>(); !text.empty()) {
      try {
        auto deck = parse_deck(text, path + "/effective.toml");
        add_plan_to(run, deck);
        if (first) run["differences"] = deck_differences(*first, deck);
        if (runs.empty()) first = std::move(deck);
      } catch (const Error&) {  // run_report() reports it
      }
    }
    runs.push_back(std::move(run));
  }
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  const Json all = {
      {"version", version()}, {"made", fmt::format("{:%Y-%m-%d %H:%M}", local)}, {"runs", runs}};
  const auto page = report_page(all);
  write_output(a.output, report_page_file, a.existing, page);
  for (const auto& run : all.at("runs"))
    for (const auto& problem : run.at("problems"))
      say("{}: {}\n", run.at("path").get<std::string>(), problem.get<std::string>());
  say("{}: {}, {:.2f} MB; open it in a browser\n", a.output, counted(runs.size(), "run"),
      static_cast<double>(page.size()) * 1e-6);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "report",
      "Write an HTML page about one or more runs: metrics, time, memory, pipeline "
      "schedule and decks");
  auto a = std::make_shared<ReportArguments>();
  command->add_option("runs", a->runs, "Directories of the runs to show")
      ->required()
      ->transform(with_environment());
  command->add_option("-o,--output", a->output, "HTML file to write")
      ->capture_default_str()
      ->transform(file_named)
      ->transform(with_environment());
  add_overwrite(*command, a->existing);
  command->callback([&chosen, a] { chosen = [a] { return report(*a); }; });
}

}  // namespace trireme
