#include "lib/predict/search.hpp"

#include <algorithm>
#include <numeric>

#include "lib/base/sizes.hpp"
#include "lib/predict/recorder.hpp"
#include "lib/predict/search_bounds.hpp"

namespace trireme {

static std::string_view name_of(ZeroCadence c) {
  return c == ZeroCadence::step ? "step" : "microbatch";
}
static std::string_view name_of(Recompute r) {
  return r == Recompute::block ? "block" : "none";
}

static std::string_view name_of(ScheduleKind s) {
  switch (s) {
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zero_bubble:
      return "zero-bubble";
    default:
      return "1f1b";
  }
}

static std::string zero_overrides(const RunChoice& c) {
  if (c.zero_stage == 0) return "zero.stage=0";
  if (c.gather == ZeroCadence::step)
    return c.reduce == ZeroCadence::step ? "zero.stage=1" : "zero.stage=2";
  return fmt::format("zero.stage=3 zero.gather={} zero.reduce={}", name_of(c.gather),
                     name_of(c.reduce));
}

static std::string schedule_overrides(const RunChoice& c) {
  return fmt::format("parallel.schedule={} parallel.chunks={}", name_of(c.schedule), c.chunks);
}

std::string overrides_of(const RunChoice& c) {
  auto text = fmt::format(
      "parallel.pipe={} parallel.data={} parallel.seq={} train.microbatch={} model.recompute={}",
      c.grid.pipe, c.grid.data, c.grid.seq, c.microbatch, name_of(c.recompute));
  if (c.grid.pipe > 1) text += " " + schedule_overrides(c);
  return text + " " + zero_overrides(c);
}

namespace {

struct Order {
  ScheduleKind schedule;
  int chunks;
};

// Those that a pipeline and its microbatches allow; chunks are powers of two.
std::vector<Order> orders_of(const PlanInput& in, int pipe, std::int64_t microbatches) {
  std::vector<Order> all{{ScheduleKind::one_f_one_b, 1}};
  if (pipe == 1) return all;
  all.push_back({ScheduleKind::zero_bubble, 1});
  if (in.transport == TransportKind::device) return all;  // refused between devices
  for (int chunks = 2; std::int64_t{chunks} * pipe <= in.setup.model.layers; chunks *= 2)
    if (pipeline_fault(ScheduleKind::interleaved, pipe, chunks, microbatches).empty())
      all.push_back({ScheduleKind::interleaved, chunks});
  return all;
}

}  // namespace

std::vector<RunChoice> choices_of(const PlanInput& in, std::int64_t ranks) {
  const auto& model = in.setup.model;
  const GridLimits limits{.layers = model.layers, .heads = model.heads, .tokens = model.context};
  std::vector<RunChoice> all;
  for (const auto& grid : legal_grids(limits, ranks)) {
    if (in.train.batch % grid.data != 0) continue;
    const auto samples = in.train.batch / grid.data;
    for (const auto microbatch : divisors(samples)) {
      if ((microbatch & (microbatch - 1)) != 0 && microbatch != samples) continue;
      for (const auto recompute : {Recompute::none, Recompute::block}) {
        for (const auto order : orders_of(in, grid.pipe, samples / microbatch)) {
          RunChoice c{.grid = grid,
                      .microbatch = microbatch,
                      .recompute = recompute,
                      .schedule = order.schedule,
                      .chunks = order.chunks};
          all.push_back(c);
          if (grid.places() == 1) continue;
          c.zero_stage = 3;
          for (const auto gather : {ZeroCadence::microbatch, ZeroCadence::step})
            for (const auto reduce : {ZeroCadence::microbatch, ZeroCadence::step}) {
              c.gather = gather;
              c.reduce = reduce;
              all.push_back(c);
            }
        }
      }
    }
  }
  return all;
}

namespace {

// A choice's step with that many microbatches.
Trial simulate_choice(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                      const RunChoice& c, std::int64_t microbatches) {
  auto input = input_of(in, c);
  input.train.batch = microbatches * c.microbatch * c.grid.data;
  const auto kinds = kinds_of_ranks(input);
  const Placement placement{static_cast<int>(machine.ranks_of_node)};
  Trial trial;
  trial.choice = c;
  std::vector<Recording> recordings;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    Account account;
    recordings.push_back(record_step(input, target, placement, kinds, k, &account));
    const auto axes = pretend_axes(input.grid, shard_ranks(input.setup.zero, input.grid), kinds[k]);
    trial.needed = std::max(trial.needed, memory_of(account, target.properties) +
                                              beside_account(input, target.properties, axes).all());
    double sent = 0;
    for (const auto& t : recordings.back().transfers) sent += t.bytes_out();
    trial.sent = std::max(trial.sent, sent);
  }
  const auto times = simulate(machine, recordings);
  trial.seconds = times.seconds;
  trial.lost = lost_in(times);
  return trial;
}

double along(double few, double more, double steps) {
  return more + (more - few) * steps;
}

}  // namespace

// A pipeline that is full repeats itself with each microbatch, with chunks with each group of them.
Trial try_choice(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                 const RunChoice& c) {
  const auto m = in.train.batch / (c.microbatch * c.grid.data);
  const bool groups = c.schedule == ScheduleKind::interleaved;
  const std::int64_t few = groups ? 2 * c.grid.pipe : c.grid.pipe + 2, more = few + c.grid.pipe;
  if (m <= more + 2) return simulate_choice(in, target, machine, c, m);
  const auto a = simulate_choice(in, target, machine, c, few);
  auto b = simulate_choice(in, target, machine, c, more);
  const double steps = static_cast<double>(m - more) / static_cast<double>(more - few);
  b.seconds = along(a.seconds, b.seconds, steps);
  b.sent = along(a.sent, b.sent, steps);
  const auto extend = [&](double Lost::*of) {
    b.lost.*of = std::max(0.0, along(a.lost.*of, b.lost.*of, steps));
  };
  extend(&Lost::bubble);
  extend(&Lost::starved);
  for (std::size_t i = 0; i < axis_count; ++i)
    b.lost.exposed[i] = std::max(0.0, along(a.lost.exposed[i], b.lost.exposed[i], steps));
  return b;
}

namespace {

class Search {
 public:
  Search(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
         std::optional<double> memory, Bounds bounds, std::size_t most)
      : in_(in),
        target_(target),
        machine_(machine),
        memory_(memory),
        // Bounds come from models of a block or two, which rules of others do not fit.
        bounds_(in.setup.freeze.empty() ? bounds : Bounds::try_all),
        most_(most),
        least_(in_, target_, machine_) {}

  SearchResult run(std::int64_t ranks) {
    for (const auto& c : choices_of(in_, ranks)) consider(c);
    std::ranges::stable_sort(waiting_, {}, &Waiting::least);
    for (const auto& w : waiting_) {
      const auto& best = out_.best;
      if (bounds_ == Bounds::prune && best.size() == most_ && w.least >= best.back().seconds) {
        ++out_.too_slow;
        continue;
      }
      attempt(w.choice);
    }
    if (!out_.best.empty()) compare();
    return std::move(out_);
  }

 private:
  struct Waiting {
    RunChoice choice;
    double least;
  };

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
    ++out_.simulated;
    return try_choice(in_, target_, machine_, c);
  }

  void attempt(const RunChoice& c) {
    const auto found = tried(c);
    if (memory_ && static_cast<double>(found.needed) > *memory_) {
      ++out_.over_memory;
      return;
    }
    auto& best = out_.best;
    best.insert(std::ranges::upper_bound(best, found.seconds, {}, &Trial::seconds), found);
    if (best.size() > most_) best.pop_back();
  }

  // The best with one thing changed: what that saves and costs.
  void compare() {
    const auto best = out_.best.front();
    const auto& c = best.choice;
    const auto samples = in_.train.batch / c.grid.data;
    const auto change = [&](const RunChoice& to, const std::string& overrides) {
      if (to == c || samples % to.microbatch != 0 ||
          !pipeline_fault(to.schedule, to.grid.pipe, to.chunks, samples / to.microbatch).empty())
        return;
      const auto it = std::ranges::find(out_.best, to, &Trial::choice);
      const auto other = it != out_.best.end() ? *it : tried(to);
      out_.alternatives.push_back(in_words(overrides, best, other));
    };
    const auto flip = [](ZeroCadence x) {
      return x == ZeroCadence::step ? ZeroCadence::microbatch : ZeroCadence::step;
    };
    const auto zero = [&](int stage, ZeroCadence gather, ZeroCadence reduce) {
      RunChoice to = c;
      to.zero_stage = stage;
      to.gather = gather;
      to.reduce = reduce;
      change(to, zero_overrides(to));
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
    change(to, fmt::format("model.recompute={}", name_of(to.recompute)));
    for (const auto order : orders_of(in_, c.grid.pipe, samples / c.microbatch)) {
      to = c;
      to.schedule = order.schedule;
      to.chunks = order.chunks;
      change(to, schedule_overrides(to));
    }
    for (const auto size : {2 * c.microbatch, c.microbatch / 2}) {
      to = c;
      to.microbatch = size;
      if (size > 0) change(to, fmt::format("train.microbatch={}", size));
    }
  }

  std::string in_words(const std::string& what, const Trial& best, const Trial& other) const {
    std::vector<std::string> saves, costs;
    const auto weigh = [&](double difference, double of, const std::string& text) {
      if (std::abs(difference) < 0.005 * of) return;
      (difference < 0 ? saves : costs).push_back(text);
    };
    const double time = other.seconds - best.seconds;
    weigh(time, best.seconds,
          fmt::format("{:.1f}% of the step", 100 * std::abs(time) / best.seconds));
    const double sent = other.sent - best.sent;
    weigh(sent, best.sent, fmt::format("{} sent by a rank", traffic_text(std::abs(sent))));
    const double bytes = static_cast<double>(other.needed) - static_cast<double>(best.needed);
    weigh(bytes, static_cast<double>(best.needed), memory_text(std::abs(bytes)));
    const auto join = [](const auto& all) { return fmt::format("{}", fmt::join(all, " and ")); };
    std::string text = what;
    if (!saves.empty()) text += " saves " + join(saves);
    if (!costs.empty()) text += (saves.empty() ? " costs " : " and costs ") + join(costs);
    if (saves.empty() && costs.empty()) text += " changes next to nothing";
    if (memory_ && static_cast<double>(other.needed) > *memory_) text += ", which does not fit";
    return text;
  }

  PlanInput in_;
  DryTarget target_;
  const MachineModel& machine_;
  std::optional<double> memory_;
  Bounds bounds_;
  std::size_t most_;
  SearchBounds least_;
  std::vector<Waiting> waiting_;
  SearchResult out_;
};

// Where most of a step's lost time goes.
std::string reason(const Trial& f) {
  std::vector<std::pair<double, std::string>> all{{f.lost.bubble, "bubble"},
                                                  {f.lost.starved, "waits for the host"}};
  for (int a = 0; a < axis_count; ++a)
    all.emplace_back(f.lost.exposed[static_cast<std::size_t>(a)],
                     fmt::format("messages of {}", name_of(static_cast<Axis>(a))));
  if (f.choice.recompute == Recompute::block)
    all.emplace_back(f.seconds / 4, "computing forward twice");  // of 4 parts, one is done again
  std::ranges::stable_sort(all, std::greater{}, [](const auto& x) { return x.first; });
  std::string text;
  for (const auto& [seconds, what] : std::span(all).first(2))
    if (seconds >= 0.005 * f.seconds)
      text +=
          fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", what, 100 * seconds / f.seconds);
  return text.empty() ? "computes nearly all the time" : text;
}

}  // namespace

SearchResult search(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                    std::int64_t ranks, std::optional<double> memory, Bounds bounds,
                    std::size_t most) {
  return Search(in, target, machine, memory, bounds, most).run(ranks);
}

std::string search_text(const SearchResult& r, std::optional<double> memory) {
  std::string text = fmt::format(
      "{} ways to run it: {} left out as they need more memory ({}), {} as they cannot be among "
      "the "
      "{} fastest; {} simulated, of which {} need more memory\n",
      r.choices, r.too_large, memory ? memory_text(*memory) : "no limit given", r.too_slow,
      r.best.size(), r.simulated, r.over_memory);
  for (const auto& f : r.best)
    text += fmt::format("{:>10.4g} s {:>10}  {}\n{:>25}loses by {}\n", f.seconds,
                        memory_text(static_cast<double>(f.needed)), overrides_of(f.choice), "",
                        reason(f));
  if (!r.alternatives.empty()) text += "beside the fastest, one thing changed:\n";
  for (const auto& a : r.alternatives) text += "  " + a + "\n";
  return text;
}

}  // namespace trireme
