#include "lib/predict/search_text.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "lib/base/sizes.hpp"

namespace trireme {

// Returns where most of a step's lost time is spent.
static std::string reason(const Trial& f) {
  std::vector<std::pair<double, std::string>> all{{f.lost.bubble, "bubble"},
                                                  {f.lost.starved, "waiting for host"}};
  for (int a = 0; a < axis_count; ++a)
    all.emplace_back(f.lost.exposed[static_cast<std::size_t>(a)],
                     fmt::format("{} messages", name_of(static_cast<Axis>(a))));
  if (f.choice.recompute == Recompute::block)
    all.emplace_back(f.seconds / 4, "recomputation");  // of 4 parts, one is done again
  std::ranges::stable_sort(all, std::greater{}, [](const auto& x) { return x.first; });
  std::string text;
  for (const auto& [seconds, what] : std::span(all).first(2))
    if (seconds >= 0.005 * f.seconds)
      text +=
          fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", what, 100 * seconds / f.seconds);
  return text.empty() ? "almost none" : text;
}

// Returns what the change saves and costs, compared with the fastest choice.
static std::string alternative_text(const Trial& other, const Trial& best,
                                    std::optional<double> memory, const SettingsToReset& set) {
  std::vector<std::string> saves, costs;
  const auto weigh = [&](double difference, double of, const std::string& text) {
    if (std::abs(difference) < 0.005 * of) return;
    (difference < 0 ? saves : costs).push_back(text);
  };
  const double time = other.seconds - best.seconds;
  weigh(time, best.seconds,
        fmt::format("{:.1f}% of the step time", 100 * std::abs(time) / best.seconds));
  const double sent = other.sent() - best.sent();
  weigh(sent, best.sent(), fmt::format("{} sent per rank", traffic_text(std::abs(sent))));
  const double bytes = static_cast<double>(other.needed()) - static_cast<double>(best.needed());
  weigh(bytes, static_cast<double>(best.needed()), memory_text(std::abs(bytes)) + " of memory");
  const auto join = [](const auto& all) { return fmt::format("{}", fmt::join(all, " and ")); };
  std::string text = changed_overrides(best.choice, other.choice, set);
  if (!saves.empty()) text += " saves " + join(saves);
  if (!costs.empty()) text += (saves.empty() ? " costs " : " and costs ") + join(costs);
  if (saves.empty() && costs.empty()) text += " makes almost no difference";
  if (memory && static_cast<double>(other.needed()) > *memory)
    text += ", but needs too much memory";
  return text;
}

std::string search_text(const SearchResult& r, std::optional<double> memory,
                        const SettingsToReset& set) {
  std::string text = fmt::format(
      "{} configurations: {} need too much memory ({}), {} cannot be among the {} fastest, {} were "
      "simulated; of these, {} need too much memory\n",
      r.choices, r.too_large, memory ? "limit " + memory_text(*memory) : "no limit", r.too_slow,
      r.best.size(), r.simulated, r.over_memory);
  for (const auto& f : r.best)
    text += fmt::format("{:>10.4g} s {:>10}  {}\n{:>25}time lost: {}\n", f.seconds,
                        memory_text(static_cast<double>(f.needed())), overrides_of(f.choice, set),
                        "", reason(f));
  if (!r.alternatives.empty()) text += "compared with the fastest, one setting changed:\n";
  for (const auto& a : r.alternatives)
    text += "  " + alternative_text(a, r.best.front(), memory, set) + "\n";
  return text;
}

}  // namespace trireme
