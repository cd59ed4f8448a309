#include "lib/deck/check.hpp"

#include <algorithm>
#include <numeric>

#include "lib/base/error.hpp"
#include "lib/deck/table.hpp"

namespace trireme {
namespace {

using Counts = std::vector<std::int64_t>;

Counts divisors(std::int64_t n) {
  Counts small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d * d != n) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

// Those of `legal` that lie nearest to what was asked for, in order.
std::string legal_text(Counts legal, std::int64_t asked) {
  constexpr std::size_t most = 8;
  std::stable_sort(legal.begin(), legal.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - asked) < std::abs(b - asked);
  });
  if (legal.size() > most) legal.resize(most);
  std::sort(legal.begin(), legal.end());
  return fmt::format("{}", fmt::join(legal, ", "));
}

class Checker {
 public:
  explicit Checker(const Deck& deck) : deck_(deck) {}

  std::vector<DeckProblem> all() {
    model();
    data();
    train();
    precision();
    parallel();
    run();
    return std::move(problems_);
  }

 private:
  template <class... A>
  void rule(bool holds, std::vector<std::string> keys, fmt::format_string<A...> text, A&&... args) {
    if (!holds) problems_.push_back({std::move(keys), fmt::format(text, std::forward<A>(args)...)});
  }

  void model() {
    const ModelConfig& m = deck_.model;
    const bool rotary = m.positions == Positions::rotary;
    if (m.width % m.heads != 0) {
      Counts legal = divisors(m.width);
      std::erase_if(legal, [&](std::int64_t h) { return rotary && m.width / h % 2 != 0; });
      rule(false, {"model.heads", "model.width", "model.positions"},
           "model.heads = {} does not divide model.width = {}; heads that do: {}", m.heads, m.width,
           legal_text(legal, m.heads));
    } else {
      rule(!rotary || m.head_dim() % 2 == 0, {"model.heads", "model.width", "model.positions"},
           "rotary positions turn pairs of channels, and a head of width / heads = {} / {} has {}; "
           "choose an even one",
           m.width, m.heads, m.head_dim());
    }
    rule(m.heads % m.kv_heads == 0, {"model.kv_heads", "model.heads"},
         "model.kv_heads = {} does not divide model.heads = {}; key and value heads that do: {}",
         m.kv_heads, m.heads, legal_text(divisors(m.heads), m.kv_heads));
  }

  void data() {
    const DataConfig& d = deck_.data;
    rule(!d.path.empty(), {"data.path"},
         "data.path is missing; name the token files to train on (trireme tokenize makes them)");
    rule(d.weights.empty() || d.weights.size() == d.path.size(), {"data.weights", "data.path"},
         "data.weights has {} entries and data.path {}; give one for each file", d.weights.size(),
         d.path.size());
    const auto twice = std::find_first_of(d.validation_files.begin(), d.validation_files.end(),
                                          d.path.begin(), d.path.end());
    rule(twice == d.validation_files.end(), {"data.validation", "data.path"},
         "data.validation holds a file that is also trained on; name another, or a fraction such "
         "as 0.01 to hold out its tail");
  }

  void train() {
    const TrainConfig& t = deck_.train;
    rule(t.steps == 0 || t.tokens == 0, {"train.steps", "train.tokens"},
         "train.steps and train.tokens both give the length of the run; keep one");
    rule(t.steps > 0 || t.tokens > 0, {"train.steps", "train.tokens"},
         "the length of the run is missing; give train.steps or train.tokens");
    rule(deck_.schedule.min_lr <= deck_.optimizer.lr, {"schedule.min_lr", "optimizer.lr"},
         "schedule.min_lr = {} is above optimizer.lr = {}; the rate only falls",
         number_text(deck_.schedule.min_lr), number_text(deck_.optimizer.lr));
    const std::int64_t data = std::max<std::int64_t>(deck_.parallel.data, 1);
    const std::vector<std::string> keys = {"train.microbatch", "train.batch", "parallel.data"};
    if (t.batch % data != 0) {
      rule(false, {"train.batch", "parallel.data"},
           "train.batch = {} is not divisible by parallel.data = {}; batches that are: {}", t.batch,
           data, legal_text({t.batch / data * data, (t.batch / data + 1) * data}, t.batch));
    } else if (t.microbatch > 0) {
      rule(t.batch / data % t.microbatch == 0, keys,
           "train.microbatch = {} does not divide the {} samples of a data rank (train.batch = {}, "
           "parallel.data = {}); microbatches that do: {}",
           t.microbatch, t.batch / data, t.batch, data,
           legal_text(divisors(t.batch / data), t.microbatch));
    }
  }

  void precision() {
    const PrecisionConfig& p = deck_.precision;
    const bool wide_run = p.compute == DType::f64;
    rule(!wide_run || deck_.run.backend == "ref", {"precision.compute", "run.backend"},
         "precision.compute = \"f64\" needs run.backend = \"ref\", the only one with doubles");
    rule(wide_run == (p.reduce == DType::f64), {"precision.reduce", "precision.compute"},
         "precision.reduce = \"{}\" does not go with precision.compute = \"{}\"; leave it \"auto\"",
         name_of(p.reduce), name_of(p.compute));
  }

  void parallel() {
    const ParallelConfig& p = deck_.parallel;
    const ModelConfig& m = deck_.model;
    rule(p.pipe <= m.layers, {"parallel.pipe", "model.layers"},
         "parallel.pipe = {} is more than model.layers = {}; a stage needs a block", p.pipe,
         m.layers);
    rule(p.seq <= m.heads, {"parallel.seq", "model.heads"},
         "parallel.seq = {} is more than model.heads = {}; a sequence rank needs a head", p.seq,
         m.heads);
    rule(m.context % p.seq == 0, {"parallel.seq", "model.context"},
         "parallel.seq = {} does not divide model.context = {}; degrees that do: {}", p.seq,
         m.context, legal_text(divisors(m.context), p.seq));
    if (p.stage_layers.empty()) return;
    const auto stages = static_cast<std::int64_t>(p.stage_layers.size());
    rule(stages == p.pipe, {"parallel.stage_layers", "parallel.pipe"},
         "parallel.stage_layers has {} entries and parallel.pipe is {}; give one a stage", stages,
         p.pipe);
    const std::int64_t sum =
        std::accumulate(p.stage_layers.begin(), p.stage_layers.end(), std::int64_t{0});
    rule(sum == m.layers, {"parallel.stage_layers", "model.layers"},
         "parallel.stage_layers adds up to {} blocks and model.layers is {}", sum, m.layers);
  }

  void run() {
    const auto& t = deck_.run.trace_steps;
    rule(t.empty() || (t.size() == 2 && t[0] <= t[1]), {"run.trace_steps"},
         "run.trace_steps is the first and the last step to trace, such as [10, 12]");
    for (const auto& f : deck_.freeze) {
      rule(!f.pattern.empty(), {"freeze.pattern"}, "freeze.pattern is missing; name parameters");
      rule(f.to_step == 0 || f.to_step > f.from_step, {"freeze.to_step", "freeze.from_step"},
           "[[freeze]] of '{}' ends at step {} and starts at {}; 0 freezes to the end", f.pattern,
           f.to_step, f.from_step);
    }
  }

  const Deck& deck_;
  std::vector<DeckProblem> problems_;
};

// Grids of that many ranks on which the deck's model and batch can be spread.
std::vector<std::string> legal_grids(const Deck& deck, std::int64_t ranks) {
  std::vector<std::string> grids;
  for (const std::int64_t pipe : divisors(ranks)) {
    for (const std::int64_t seq : divisors(ranks / pipe)) {
      const std::int64_t data = ranks / pipe / seq;
      if (pipe > deck.model.layers || seq > deck.model.heads || deck.model.context % seq != 0 ||
          deck.train.batch % data != 0) {
        continue;
      }
      grids.push_back(fmt::format("{} x {} x {}", pipe, data, seq));
    }
  }
  return grids;
}

}  // namespace

std::vector<DeckProblem> check_deck(const Deck& deck) {
  return Checker(deck).all();
}

std::int64_t default_microbatch(std::int64_t samples, std::int64_t pipe) {
  if (pipe == 1) return samples;
  std::int64_t best = 1;
  for (const std::int64_t m : divisors(samples)) {
    if (samples / m >= 2 * pipe) best = std::max(best, m);
  }
  return best;
}

Deck fit_to_ranks(Deck deck, std::int64_t ranks) {
  require(ranks >= 1, "a run has at least one rank, not {}", ranks);
  ParallelConfig& p = deck.parallel;
  const std::int64_t others = p.pipe * p.seq;
  const bool fits = p.data == 0 ? ranks % others == 0 : ranks == others * p.data;
  if (!fits) {
    constexpr std::size_t most = 8;
    auto grids = legal_grids(deck, ranks);
    if (grids.size() > most) grids.resize(most);
    fail("a grid of pipe {} x data {} x seq {} does not fill {} ranks; {}", p.pipe,
         p.data == 0 ? "auto" : std::to_string(p.data), p.seq, ranks,
         grids.empty() ? "no grid of that many ranks suits this model and batch"
                       : fmt::format("pipe x data x seq that does: {}", fmt::join(grids, ", ")));
  }
  if (p.data == 0) {
    p.data = ranks / others;
    require_supported(*find_key("parallel.data"), p.data);
  }
  std::string problems;
  for (const auto& problem : check_deck(deck)) {
    problems += (problems.empty() ? "" : "\n") + problem.message;
  }
  require(problems.empty(), "on {} ranks: {}", ranks, problems);
  if (deck.train.microbatch == 0) {
    deck.train.microbatch = default_microbatch(deck.train.batch / p.data, p.pipe);
  }
  return deck;
}

}  // namespace trireme
