#include "lib/pipe/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

using enum Do;

// Simulated clocks of all stages while the stages execute their programs.
class Clocks {
 public:
  Clocks(const Pipeline& pipe, std::span<const Program> programs, std::span<const StageCost> costs)
      : pipe_(pipe), programs_(programs), costs_(costs), stages_(programs.size()) {
    for (auto& left : left_) left.resize(costs.size());
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (stages_[s].next < programs_[s].size() && advance(s)) moved = true;
    }
    Timeline t;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      auto& [next, now, spans] = stages_[s];
      require(next == programs_[s].size(), "these programs never finish: stage {} waits for {}", s,
              next == programs_[s].size() ? "" : describe(programs_[s][next]));
      if (!spans.empty()) t.end = std::max(t.end, spans.back().end);
      t.stages.push_back(std::move(spans));
    }
    return t;
  }

 private:
  struct Stage {
    std::size_t next = 0;  // index of the next instruction
    double now = 0;
    std::vector<Span> spans;
  };
  using Times = std::vector<double>;  // by micro-batch

  bool advance(std::size_t s) {
    Stage& stage = stages_[s];
    const Instruction& i = programs_[s][stage.next];
    const int at = pipe_.virtual_stage(static_cast<int>(s), i.chunk);
    const auto& cost = costs_[static_cast<std::size_t>(at)];
    switch (i.what) {
      case forward:
        work(stage, i, cost.forward);
        break;
      case backward:
        work(stage, i, cost.backward);
        break;
      case input_gradients:
        work(stage, i, cost.backward - cost.weights);
        break;
      case weight_gradients:
        work(stage, i, cost.weights);
        break;
      case send_activation:
        left(0, at).push_back(stage.now);
        break;
      case send_gradient:
        left(1, at).push_back(stage.now);
        break;
      case receive_activation:
        if (!receive(stage, i, left(0, at - 1))) return false;
        break;
      case receive_gradient:
        if (!receive(stage, i, left(1, at + 1))) return false;
        break;
    }
    ++stage.next;
    return true;
  }

  Times& left(std::size_t what, int virtual_stage) {
    return left_[what].at(static_cast<std::size_t>(virtual_stage));
  }

  static void work(Stage& stage, const Instruction& i, double cost) {
    stage.spans.push_back({i, stage.now, stage.now + cost});
    stage.now += cost;
  }

  static bool receive(Stage& stage, const Instruction& i, const Times& left) {
    const auto m = static_cast<std::size_t>(i.microbatch);
    if (m >= left.size()) return false;
    stage.now = std::max(stage.now, left[m]);
    return true;
  }

  const Pipeline& pipe_;
  std::span<const Program> programs_;
  std::span<const StageCost> costs_;
  std::vector<Stage> stages_;
  std::array<std::vector<Times>, 2> left_;  // when activations, gradients left each virtual stage
};

}  // namespace

Timeline make_timeline(const Pipeline& pipe, std::span<const Program> programs,
                       std::span<const StageCost> costs) {
  expect(std::ssize(programs) == pipe.stages && std::ssize(costs) == pipe.virtual_stages(),
         "each stage has a program, each virtual stage a cost");
  const bool halves = std::ranges::any_of(
      programs, [](const auto& p) { return backward_of(p) == input_gradients; });
  for (const auto& c : costs)
    expect(
        c.forward > 0 && c.backward > 0 && (!halves || (c.weights > 0 && c.weights < c.backward)),
        "costs are above 0");
  return Clocks(pipe, programs, costs).run();
}

double bubble(const Timeline& t) {
  double busy = 0;
  for (const auto& stage : t.stages) {
    for (const auto& span : stage) busy += span.end - span.begin;
  }
  return t.end > 0 ? 1 - busy / (t.end * static_cast<double>(t.stages.size())) : 0;
}

static char mark_of(Do what) {
  return what == forward ? '>' : what == weight_gradients ? 'w' : '<';
}

std::string timeline_text(const Timeline& t, int columns) {
  expect(columns >= 70, "a timeline has room for its legend");
  double shortest = t.end;
  int most = 0;
  bool whole = false, halves = false, chunks = false;
  for (const auto& stage : t.stages) {
    for (const auto& [what, begin, end] : stage) {
      shortest = std::min(shortest, end - begin);
      most = std::max(most, what.microbatch);
      whole |= what.what == backward;
      halves |= what.what == input_gradients;
      chunks |= what.chunk > 0;
    }
  }
  // The shortest span has two columns: a digit and its direction.
  const auto column = [&](double time) {
    return shortest > 0 ? static_cast<std::size_t>(std::llround(time * 2 / shortest)) : 0;
  };
  const std::size_t digits =
      fmt::formatted_size("{}", std::max<std::size_t>(t.stages.size(), 1) - 1);
  const std::size_t room =
      static_cast<std::size_t>(columns) - fmt::formatted_size("stage {:>{}} ", 0, digits);
  const std::size_t width = column(t.end), shown = std::min(width, room);

  std::string text;
  for (std::size_t s = 0; s < t.stages.size(); ++s) {
    std::string row(shown, '.');
    for (const auto& [what, begin, end] : t.stages[s]) {
      const std::size_t from = column(begin), to = std::min(column(end), shown);
      if (from >= shown) break;
      row.replace(from, to - from, to - from, mark_of(what.what));
      row[from] = static_cast<char>('0' + what.microbatch % 10);
    }
    text += fmt::format("stage {:>{}} {}\n", s, digits, row);
  }
  text += fmt::format("m> forward{} of microbatch m{}{}, . idle\n",
                      !whole && !halves ? ""
                      : halves          ? ", m< backward, mw its weight gradients"
                                        : ", m< backward",
                      most > 9 ? " (its last digit)" : "", chunks ? ", once per chunk" : "");
  if (width > room) {
    text += fmt::format("cut after {:.0f}% of {} microbatches\n",
                        100.0 * static_cast<double>(room) / static_cast<double>(width), most + 1);
  }
  return text;
}

}  // namespace trireme
