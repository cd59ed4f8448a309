#include "tests/support/covering.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/rng.hpp"

namespace trireme::test {

namespace {

// Settings of a few factors, each with its factor.
using Meeting = std::vector<std::pair<std::size_t, std::size_t>>;

// All of `size` factors that a choice makes.
void add_meetings(const Choice& c, std::size_t size, std::size_t from, Meeting& so_far,
                  std::vector<Meeting>& all) {
  if (so_far.size() == size) {
    all.push_back(so_far);
    return;
  }
  for (auto f = from; f < c.size(); ++f) {
    so_far.emplace_back(f, c[f]);
    add_meetings(c, size, f + 1, so_far, all);
    so_far.pop_back();
  }
}

std::vector<Meeting> meetings_of(const Choice& c, std::size_t size, std::size_t first) {
  Meeting so_far;
  std::vector<Meeting> all;
  add_meetings(c, size, first, so_far, all);
  return all;
}

}  // namespace

void for_each_choice(std::span<const std::size_t> settings,
                     const std::function<void(const Choice&)>& f) {
  Choice c(settings.size(), 0);
  for (std::size_t i = 0; i < settings.size();) {
    f(c);
    for (i = 0; i < settings.size() && ++c[i] == settings[i]; ++i) c[i] = 0;
  }
}

// Greedy: from pseudo-random candidates the one that covers most that is not covered yet.
std::vector<Choice> covering_choices(std::span<const std::size_t> settings, std::size_t size,
                                     std::size_t first) {
  std::set<Meeting> missing;
  // The product of any `size` factors is in it, the others at their first setting.
  Meeting factors;
  std::vector<Meeting> all_factors;
  add_meetings(Choice(settings.size(), 0), size, first, factors, all_factors);
  for (const auto& meet : all_factors) {
    std::vector<std::size_t> of;
    for (const auto& [f, setting] : meet) of.push_back(settings[f]);
    for_each_choice(of, [&](const Choice& c) {
      Meeting m;
      for (std::size_t i = 0; i < c.size(); ++i) m.emplace_back(meet[i].first, c[i]);
      missing.insert(std::move(m));
    });
  }
  std::vector<Choice> chosen;
  std::uint64_t draw = 0;
  while (!missing.empty()) {
    Choice best;
    std::size_t most = 0;
    for (int candidate = 0; candidate < 60; ++candidate) {
      Choice c;
      for (const auto n : settings) c.push_back(mix64(++draw) % n);
      // Every candidate covers the first that is missing, so the search ends.
      for (const auto& [f, setting] : *missing.begin()) c[f] = setting;
      const auto meetings = meetings_of(c, size, first);
      const auto gain = static_cast<std::size_t>(
          std::ranges::count_if(meetings, [&](const Meeting& m) { return missing.contains(m); }));
      if (gain > most) {
        most = gain;
        best = c;
      }
    }
    for (const auto& m : meetings_of(best, size, first)) missing.erase(m);
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace trireme::test
