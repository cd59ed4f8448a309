#include "lib/predict/search.hpp"

#include <algorithm>

#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/predict/search_bounds.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {
namespace {

// Returns false if the products in fp8 or the adapters may differ between blocks. Bounds come from
// models of one or two blocks.
bool has_bounds(const PlanInput& in) {
  const auto& adapter = in.setup.adapter;
  auto patterns = adapter.patterns;
  patterns.insert(patterns.end(), adapter.also_train.begin(), adapter.also_train.end());
  for (const auto& rank : adapter.ranks) patterns.push_back(rank.pattern);
  // A pattern with a digit or ? may match some of the numbers of blocks.
  const auto names_blocks = [](const std::string& pattern) {
    return pattern.find_first_of("0123456789?") != std::string::npos;
  };
  return in.setup.fp8.same_in_all_blocks() &&
         (adapter.rank == 0 || std::ranges::none_of(patterns, names_blocks));
}

class Search {
 public:
  Search(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
         std::optional<double> memory, Bounds bounds, std::size_t most)
      : in_(in),
        target_(target),
        machine_(machine),
        memory_(memory),
        bounds_(has_bounds(in) ? bounds : Bounds::try_all),
        most_(most),
        least_(in_, target_, machine_) {}

  SearchResult run(std::int64_t ranks) {
    for (const auto& c : choices_of(in_, ranks, 8)) {
      consider(c);
      if (take_turn_to_log())
        log_info("estimated lower bounds for {} configurations", out_.choices);
    }
    std::ranges::stable_sort(waiting_, {}, &Waiting::least);
    for (const auto& w : waiting_) {
      const auto& best = out_.best;
      if (bounds_ == Bounds::prune && best.size() == most_ && w.least >= best.back().seconds) {
        ++out_.too_slow;
        continue;
      }
      attempt(w.choice);
      if (take_turn_to_log())
        log_info("simulated {} of at most {} configurations", out_.simulated, waiting_.size());
    }
    if (!out_.best.empty()) compare();
    return std::move(out_);
  }

 private:
  struct Waiting {
    RunChoice choice;
    double least;
  };

  // Returns true every 10 s, when it is time to log a line about the progress.
  bool take_turn_to_log() {
    const bool due = seconds_since(logged_) >= 10;
    if (due) logged_ = std::chrono::steady_clock::now();
    return due;
  }

  void consider(const RunChoice& c) {
    ++out_.choices;
    if (bounds_ == Bounds::try_all) {
      waiting_.push_back({c, 0});
      return;
    }
    if (memory_ && least_.bytes(c) > *memory_)
      ++out_.too_large;
    else
      waiting_.push_back({c, least_.seconds(c)});
  }

  Trial tried(const RunChoice& c) {
    auto t = try_choice(in_, target_, machine_, c);
    // Extrapolation may give a time below the lower bound.
    if (has_bounds(in_)) t.seconds = std::max(t.seconds, least_.seconds(c));
    return t;
  }

  void attempt(const RunChoice& c) {
    ++out_.simulated;
    auto found = tried(c);
    const auto too_large = [&] {
      return memory_ && static_cast<double>(found.needed()) > *memory_;
    };
    auto& best = out_.best;
    if (!too_large()) {
      if (best.size() == most_ && found.seconds >= best.back().seconds) return;
      plan_memory(found, in_, target_);
    }
    if (too_large()) {
      ++out_.over_memory;
      return;
    }
    best.insert(std::ranges::upper_bound(best, found.seconds, {}, &Trial::seconds), found);
    if (best.size() > most_) best.pop_back();
  }

  // Compares the best choice with choices that differ from it in one setting.
  void compare() {
    const auto best = out_.best.front();
    const auto& c = best.choice;
    const auto samples = common_batch(in_.train) / c.grid.data;
    const auto change = [&](const RunChoice& to) {
      if (to == c || !accepts(in_, to)) return;
      const auto it = std::ranges::find(out_.best, to, &Trial::choice);
      auto other = it != out_.best.end() ? *it : tried(to);
      if (it == out_.best.end()) plan_memory(other, in_, target_);
      out_.alternatives.push_back(std::move(other));
    };
    const auto flip = [](ZeroCadence x) {
      return x == ZeroCadence::step ? ZeroCadence::microbatch : ZeroCadence::step;
    };
    const auto zero = [&](int stage, ZeroCadence gather, ZeroCadence reduce) {
      RunChoice to = c;
      to.zero_stage = stage;
      to.gather = gather;
      to.reduce = reduce;
      change(to);
    };
    using enum ZeroCadence;
    if (c.zero_stage == 3) {
      zero(3, c.gather, flip(c.reduce));
      zero(3, flip(c.gather), c.reduce);
      zero(0, microbatch, microbatch);
    } else if (c.grid.places() > 1) {
      zero(3, step, step);
    }
    RunChoice to = c;
    to.recompute = c.recompute == Recompute::block ? Recompute::none : Recompute::block;
    change(to);
    for (const auto& [schedule, chunks] : schedules_of(in_, c.grid.pipe, samples / c.microbatch)) {
      to = c;
      to.schedule = schedule;
      to.chunks = chunks;
      change(to);
    }
    for (const auto ranks : {2 * c.grid.expert, c.grid.expert / 2}) {
      to = c;
      to.grid.expert = ranks;
      if (c.mixture) change(to);
    }
    for (const auto size : {2 * c.microbatch, c.microbatch / 2}) {
      to = c;
      to.microbatch = size;
      if (size > 0) change(to);
    }
  }

  PlanInput in_;
  DryTarget target_;
  const MachineModel& machine_;
  std::optional<double> memory_;
  Bounds bounds_;
  std::size_t most_;
  SearchBounds least_;
  std::vector<Waiting> waiting_;
  std::chrono::steady_clock::time_point logged_ = std::chrono::steady_clock::now();
  SearchResult out_;
};

}  // namespace

SearchResult search(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                    std::int64_t ranks, std::optional<double> memory, Bounds bounds,
                    std::size_t most) {
  return Search(in, target, machine, memory, bounds, most).run(ranks);
}

}  // namespace trireme
