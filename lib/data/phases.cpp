#include "lib/data/phases.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"

namespace trireme {

std::string to_text(const DataHistory& history) {
  Json phases = Json::array();
  for (const auto& p : history.phases)
    phases.push_back({{"sample", p.first_sample}, {"files", p.files}, {"weights", p.shares}});
  return Json{{"files", history.files}, {"phases", phases}}.dump();
}

DataHistory history_from(std::string_view text) {
  if (text.empty()) return {};
  DataHistory history;
  try {
    const auto all = Json::parse(text);
    all.at("files").get_to(history.files);
    for (const auto& p : all.at("phases"))
      history.phases.push_back({p.at("sample").get<std::int64_t>(),
                                p.at("files").get<std::vector<std::int32_t>>(),
                                p.at("weights").get<std::vector<double>>()});
  } catch (const std::exception& e) {
    throw Error(fmt::format("the checkpoint's list of data phases cannot be read: {}", e.what()));
  }
  const auto count = std::ssize(history.files);
  std::int64_t before = 0;
  for (const auto& p : history.phases) {
    const bool known = std::ranges::all_of(
        p.files, [&](std::int32_t f) { return f >= 0 && std::cmp_less(f, count); });
    const bool has_shares =
        p.shares.empty() ? history.phases.size() == 1 : p.shares.size() == p.files.size();
    require(known && has_shares && !p.files.empty() && p.first_sample >= before,
            "the checkpoint's list of data phases is damaged at sample {}", p.first_sample);
    before = p.first_sample;
  }
  require(!history.phases.empty() && history.phases[0].first_sample == 0,
          "the checkpoint's list of data phases lacks the first one");
  return history;
}

std::vector<std::string> training_files(const DataConfig& config) {
  auto files = config.path;
  for (const auto& phase : config.phases)
    for (const auto& path : phase.path)
      if (std::ranges::find(files, path) == files.end()) files.push_back(path);
  return files;
}

PhaseConfig resolved_phase(const DataConfig& config, std::size_t i) {
  PhaseConfig phase{
      .from_step = 0, .from_tokens = 0, .path = config.path, .weights = config.weights};
  if (i == 0) return phase;
  const auto& given = config.phases[i - 1];
  phase.from_step = given.from_step;
  phase.from_tokens = given.from_tokens;
  if (!given.path.empty()) phase.path = given.path;
  if (!given.path.empty() || !given.weights.empty()) phase.weights = given.weights;
  return phase;
}

// Returns the numbers of files. Files that are not in `known` are added to it.
static std::vector<std::int32_t> numbers_of(std::span<const std::string> identities,
                                            std::vector<std::string>& known) {
  std::vector<std::int32_t> numbers;
  for (const auto& identity : identities) {
    std::int32_t n = 0;
    // Two files may have the same contents. Each has a number of its own.
    while (std::cmp_less(n, known.size()) &&
           (known[static_cast<std::size_t>(n)] != identity || std::ranges::count(numbers, n) > 0))
      ++n;
    if (std::cmp_equal(n, known.size())) known.push_back(identity);
    numbers.push_back(n);
  }
  return numbers;
}

PhasePlan plan_phases(const DataHistory& before, std::int64_t samples, const DataConfig& config,
                      std::span<const std::string> identities,
                      std::span<const std::int64_t> first_samples) {
  const auto paths = training_files(config);
  PhasePlan plan{before, {}};
  auto& [files, phases] = plan.history;
  std::erase_if(
      phases, [&](const DataPhase& p) { return p.first_sample > 0 && p.first_sample >= samples; });
  plan.numbers = numbers_of(identities, files);
  const auto numbered = [&](std::size_t i, std::int64_t first_sample) {
    const auto given = resolved_phase(config, i);
    DataPhase phase{first_sample, {}, given.weights};
    for (const auto& path : given.path)
      phase.files.push_back(
          plan.numbers[static_cast<std::size_t>(std::ranges::find(paths, path) - paths.begin())]);
    if (phase.files.size() == 1) phase.shares = {1};
    return phase;
  };
  std::size_t now = 0;
  for (std::size_t i = 0; i < first_samples.size(); ++i)
    if (first_samples[i] <= samples) now = i + 1;
  if (phases.empty()) phases.push_back(numbered(0, 0));
  auto in_force = numbered(now, samples);
  const auto& last = phases.back();
  if (last.files != in_force.files || last.shares != in_force.shares) {
    const bool continues = samples > 0 && !last.shares.empty() && !in_force.shares.empty();
    if (!continues) {
      files.clear();
      plan.numbers = numbers_of(identities, files);
      in_force = numbered(now, 0);
      phases.clear();
    }
    phases.push_back(std::move(in_force));
  }
  for (std::size_t i = now; i < first_samples.size(); ++i)
    phases.push_back(numbered(i + 1, first_samples[i]));
  return plan;
}

}  // namespace trireme
