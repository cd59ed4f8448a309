#include "tests/support/program_checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace trireme {
namespace {

std::size_t index_of(Do what) {
  return static_cast<std::size_t>(what);
}

bool contains(const Program& program, Do what, int chunk) {
  return std::ranges::any_of(
      program, [&](const Instruction& i) { return i.what == what && i.chunk == chunk; });
}

int chunks_of(const Program& program) {
  int chunks = 1;
  for (const auto& i : program) chunks = std::max(chunks, i.chunk + 1);
  return chunks;
}

// The largest number of inputs whose `opens` has been without their `closes`, of those that have
// both.
int most_between(const Program& program, Do opens, Do closes) {
  std::set<std::pair<int, int>> closed;
  for (const auto& i : program)
    if (i.what == closes) closed.insert({i.chunk, i.microbatch});
  int now = 0, most = 0;
  for (const auto& i : program) {
    if (!closed.contains({i.chunk, i.microbatch})) continue;
    if (i.what == opens) most = std::max(most, ++now);
    if (i.what == closes) --now;
  }
  return most;
}

// One stage's part of program_faults: what it does to each microbatch, and in which order.
class StageFaults {
 public:
  StageFaults(const Program& program, int stage, int microbatches, int chunks,
              std::vector<std::string>& faults)
      : stage_(stage),
        microbatches_(microbatches),
        faults_(faults),
        at_(static_cast<std::size_t>(microbatches * chunks)) {
    for (auto& places : at_) places.fill(absent);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto& [what, m, chunk] = program[i];
      if (m < 0 || m >= microbatches || chunk < 0 || chunk >= chunks) {
        fault("{} is of no microbatch of this step", describe(program[i]));
      } else if (place(what, m, chunk) != absent) {
        fault("{} comes twice", describe(program[i]));
      } else {
        place(what, m, chunk) = static_cast<int>(i);
      }
    }
  }

  void all_or_none(Do what, int chunk, bool wanted) {
    for (int m = 0; m < microbatches_; ++m) {
      const bool there = place(what, m, chunk) != absent;
      if (wanted && !there) fault("{} is missing", describe(Instruction{what, m, chunk}));
      if (there && !wanted) fault("{} has no counterpart", describe(Instruction{what, m, chunk}));
    }
  }

  struct Step {
    Do what;
    int chunk;
  };
  void in_order(Step first, Step second) {
    for (int m = 0; m < microbatches_; ++m) {
      const int a = place(first.what, m, first.chunk), b = place(second.what, m, second.chunk);
      if (a != absent && b != absent && a > b) {
        fault("{} comes before {}", describe(Instruction{second.what, m, second.chunk}),
              describe(Instruction{first.what, m, first.chunk}));
      }
    }
  }
  void in_order(Do first, Do second, int chunk) { in_order({first, chunk}, {second, chunk}); }

 private:
  static constexpr int absent = -1;

  int& place(Do what, int m, int chunk) {
    return at_[static_cast<std::size_t>(chunk * microbatches_ + m)][index_of(what)];
  }

  template <class... A>
  void fault(fmt::format_string<A...> text, A&&... args) {
    faults_.push_back(
        fmt::format("stage {}: {}", stage_, fmt::format(text, std::forward<A>(args)...)));
  }

  int stage_, microbatches_;
  std::vector<std::string>& faults_;
  // By chunk and microbatch: the index of each instruction.
  std::vector<std::array<int, kinds_of_work>> at_;
};

bool is_message(const Instruction& i, Do activation, Do gradient) {
  return i.what == activation || i.what == gradient;
}

// What goes that way, both kinds in one order, as it is sent.
Program sent_by(const Route& route, const Program& program, int stage, Toward toward) {
  Program found;
  for (const auto& i : program)
    if (is_message(i, Do::send_activation, Do::send_gradient))
      if (const auto to = route.other(stage, i); to && to->toward == toward) found.push_back(i);
  return found;
}
Program received_by(const Route& route, const Program& program, int stage, Toward toward) {
  Program found;
  for (const auto& i : program)
    if (is_message(i, Do::receive_activation, Do::receive_gradient))
      if (const auto from = route.other(stage, i); from && from->toward == toward)
        found.push_back(from->sent);
  return found;
}

void match(const Program& sent, int sender, const Program& received, int receiver, Toward toward,
           std::vector<std::string>& faults) {
  const auto [a, b] = std::ranges::mismatch(sent, received);
  if (a == sent.end() && b == received.end()) return;
  faults.push_back(fmt::format("stage {} has {} where stage {} receives {} (message {} {})", sender,
                               a == sent.end() ? "nothing" : describe(*a), receiver,
                               b == received.end() ? "nothing" : describe(*b), a - sent.begin(),
                               toward == Toward::down ? "down" : "up"));
}

}  // namespace

std::vector<std::string> program_faults(const Route& route, std::span<const Program> programs,
                                        int microbatches) {
  using enum Do;
  std::vector<std::string> faults;
  const int stages = static_cast<int>(programs.size());
  const int chunks = route.virtual_stages() / stages;
  std::vector<StageFaults> checks;
  for (int s = 0; s < stages; ++s)
    checks.emplace_back(programs[static_cast<std::size_t>(s)], s, microbatches, chunks, faults);
  bool trained_above = false;
  for (int v = 0; v < route.virtual_stages(); ++v) {
    const int s = route.at(v), c = route.chunk_of(v);
    const Program& p = programs[static_cast<std::size_t>(s)];
    const Do back = backward_of(p);
    const bool halves = back == input_gradients;
    const bool from_above = v > 0 && route.at(v - 1) != s;
    const bool to_below = v + 1 < route.virtual_stages() && route.at(v + 1) != s;
    const bool trained = trained_above || contains(p, back, c);
    auto& stage = checks[static_cast<std::size_t>(s)];
    stage.all_or_none(receive_activation, c, from_above);
    stage.all_or_none(forward, c, true);
    stage.all_or_none(send_activation, c, to_below);
    stage.all_or_none(receive_gradient, c, trained && to_below);
    stage.all_or_none(backward, c, trained && !halves);
    stage.all_or_none(input_gradients, c, trained && halves);
    stage.all_or_none(weight_gradients, c, trained && halves);
    stage.all_or_none(send_gradient, c, trained_above && from_above);
    stage.in_order(receive_activation, forward, c);
    stage.in_order(forward, send_activation, c);
    stage.in_order(forward, back, c);
    stage.in_order(receive_gradient, back, c);
    stage.in_order(back, send_gradient, c);
    stage.in_order(input_gradients, weight_gradients, c);
    if (v > 0 && route.at(v - 1) == s) {  // handed on without a message
      stage.in_order({forward, c - 1}, {forward, c});
      if (trained_above) stage.in_order({back, c}, {back, c - 1});
    }
    trained_above = trained;
  }
  for (int s = 0; s < stages && stages > 1; ++s) {
    const int next = (s + 1) % stages;
    const Program &here = programs[static_cast<std::size_t>(s)],
                  &there = programs[static_cast<std::size_t>(next)];
    match(sent_by(route, here, s, Toward::down), s, received_by(route, there, next, Toward::down),
          next, Toward::down, faults);
    match(sent_by(route, there, next, Toward::up), next, received_by(route, here, s, Toward::up), s,
          Toward::up, faults);
  }
  return faults;
}

InputLife input_life(const Program& program, int chunk) {
  using enum Do;
  const Do begins = contains(program, receive_activation, chunk) ? receive_activation : forward;
  for (const Do ends : {send_gradient, backward, input_gradients}) {
    if (contains(program, ends, chunk)) return {begins, ends};
  }
  return {begins, forward};
}

PeakHeld peak_in_flight(const Program& program) {
  using enum Do;
  PeakHeld peak;
  std::vector<InputLife> lives;
  for (int c = 0; c < chunks_of(program); ++c) lives.push_back(input_life(program, c));
  int inputs = 0;
  for (const auto& i : program) {
    const auto [begins, ends] = lives[static_cast<std::size_t>(i.chunk)];
    if (i.what == begins) peak.inputs = std::max(peak.inputs, ++inputs);
    if (i.what == ends) --inputs;
  }
  const Do back = backward_of(program);
  peak.arriving = std::max(most_between(program, receive_activation, forward),
                           most_between(program, receive_gradient, back));
  peak.leaving = std::max(most_between(program, forward, send_activation),
                          most_between(program, back, send_gradient));
  peak.weights = most_between(program, input_gradients, weight_gradients);
  return peak;
}

}  // namespace trireme
