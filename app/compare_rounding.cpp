#include "app/compare_rounding.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "app/replayer.hpp"
#include "lib/base/log.hpp"

namespace trireme {

namespace {

// Results of a replay, as far as the question needs them.
struct Made {
  std::map<std::string, double> numbers;
  TensorValues gradients, state;
};

Made make(const RoundingQuestion& q, std::uint64_t rounding) {
  Replayer run(q.deck, q.run, q.from, rounding);
  Made made;
  while (run.step() < q.last()) {
    const auto result = run.next();
    if (run.step() == q.step) {
      made.numbers = {{"loss", result.loss}, {"grad_norm", result.grad_norm}};
      if (!q.gradients.empty()) made.gradients = gradients_of(run.trainer());
    }
    if (run.step() == q.state_step) made.state = state_of(run.trainer());
  }
  return made;
}

Tally of_numbers(double a, double b) {
  Tally t;
  t.add(0, std::span<const double>(&a, 1), std::span<const double>(&b, 1));
  return t;
}

// A value that differs between the two sides, and how much it varies between replays.
struct Tested {
  std::string what;
  Report::Json json;
  Tally difference;
  bool comparable;  // both sides have the value
  Spread spread{};
  Judgement judgement{};
  bool explained = false;
};

class RoundingTest {
 public:
  RoundingTest(const RoundingQuestion& q, const ModelPlaces& places) : q_(q) {
    for (const auto& n : q.numbers)
      if (const auto t = of_numbers(n.a, n.b); !t.equal())
        numbers_[n.name] = {n.name, {{"number", n.name}}, t, true};
    for (const auto* all : {&q.gradients, &q.state})
      for (const auto& d : *all)
        if (d.differs())
          tensors_[d.name] = {tensor_text(d.name, places), tensor_json(d.name, places), d.tally,
                              d.only_in.empty()};
  }

  void run_replays() {
    const auto still = make(q_, 0);
    for (int r = 1; r <= rounding_replays; ++r) {
      const auto moved = make(q_, static_cast<std::uint64_t>(r));
      for (auto& [name, j] : numbers_)
        j.spread.add(of_numbers(still.numbers.at(name), moved.numbers.at(name)));
      add(compare_values(still.gradients, moved.gradients));
      add(compare_values(still.state, moved.state));
    }
    judge_all();
  }

  std::size_t tensors() const { return tensors_.size(); }
  std::size_t tests() const { return numbers_.size() + tensors_.size(); }
  std::vector<const Tested*> all() const {
    std::vector<const Tested*> list;
    for (const auto& [_, j] : numbers_) list.push_back(&j);
    for (const auto& [_, j] : tensors_) list.push_back(&j);
    // The differences that rounding is least likely to explain come first.
    std::ranges::stable_sort(list, {}, [](const Tested* j) { return j->judgement.chance; });
    return list;
  }

 private:
  void add(const TensorDifferences& replay) {
    for (const auto& d : replay)
      if (const auto j = tensors_.find(d.name); j != tensors_.end()) j->second.spread.add(d.tally);
  }
  void judge_all() {
    const auto one = [&](Tested& j) {
      j.judgement = judge(j.difference, j.spread);
      j.explained = j.comparable && explained(j.judgement, tests());
    };
    for (auto& [_, j] : numbers_) one(j);
    for (auto& [_, j] : tensors_) one(j);
  }

  const RoundingQuestion& q_;
  std::map<std::string, Tested> numbers_;
  std::map<TensorName, Tested> tensors_;
};

std::string judged_text(const Tested& j) {
  if (!j.comparable) return fmt::format("  {}: exists only in A or only in B", j.what);
  return fmt::format(
      "  {}{}: {:.3g} times the size that rounding produces, projection onto A {:.3g} times (B = "
      "(1 {} {:.3g}) A)",
      j.explained ? "" : "NOT explained: ", j.what, j.judgement.size,
      std::fabs(j.judgement.projection), j.judgement.alpha < 0 ? "-" : "+",
      std::fabs(j.judgement.alpha));
}

}  // namespace

Explained explain(const RoundingQuestion& q, const ModelPlaces& places, Report& report) {
  RoundingTest test(q, places);
  log_quietly();  // each replay would log the same lines
  test.run_replays();
  const auto all = test.all();
  const auto bad = std::ranges::count(all, false, &Tested::explained);
  constexpr std::size_t most_named = 5;
  auto line = fmt::format(
      "rounding: {} replays of steps {} to {} {}, with random rounding errors in all results: they "
      "explain {} of {} differences; the least likely ones:",
      rounding_replays, q.from_step + 1, q.last(),
      q.from.empty() ? "from the beginning" : "from " + q.from, std::ssize(all) - bad, all.size());
  Report::Json judged = Report::Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& j = *all[i];
    if (i < most_named) line += "\n" + judged_text(j);
    auto json = j.json;
    json["explained"] = j.explained;
    json["size"] = j.judgement.size;
    json["projection"] = j.judgement.projection;
    json["alpha"] = j.judgement.alpha;
    json["chance"] = j.judgement.chance;
    judged.push_back(std::move(json));
  }
  report.say("rounding",
             {{"replays", rounding_replays},
              {"from_step", q.from_step},
              {"to_step", q.last()},
              {"judged", judged},
              {"explained", bad == 0}},
             line);
  if (bad > 0) return Explained::no;
  return test.tensors() > 0 ? Explained::yes : Explained::numbers_alone;
}

}  // namespace trireme
