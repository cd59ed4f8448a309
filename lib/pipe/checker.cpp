#include "lib/pipe/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trireme {
namespace {

constexpr int kinds = 6;

std::size_t index_of(Do what) {
  return static_cast<std::size_t>(what);
}

bool contains(const Program& program, Do what) {
  return std::ranges::find(program, what, &Instruction::what) != program.end();
}

// The largest number of `opens` without their `closes` so far; 0 where one of the two is absent.
int most_between(const Program& program, Do opens, Do closes) {
  if (!contains(program, closes)) return 0;
  int now = 0, most = 0;
  for (const auto& i : program) {
    if (i.what == opens) most = std::max(most, ++now);
    if (i.what == closes) --now;
  }
  return most;
}

// One stage's part of program_faults: what it does to each microbatch, and in which order.
class StageFaults {
 public:
  StageFaults(const Program& program, int stage, int microbatches, std::vector<std::string>& faults)
      : stage_(stage), faults_(faults), at_(static_cast<std::size_t>(microbatches)) {
    for (auto& places : at_) places.fill(absent);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto& [what, m, chunk] = program[i];
      if (m < 0 || m >= microbatches || chunk != 0) {
        fault("{} is of no microbatch of this step", describe(program[i]));
      } else if (place(what, m) != absent) {
        fault("{} comes twice", describe(program[i]));
      } else {
        place(what, m) = static_cast<int>(i);
      }
    }
  }

  void all_or_none(Do what, bool wanted) {
    for (int m = 0; m < static_cast<int>(at_.size()); ++m) {
      const bool there = place(what, m) != absent;
      if (wanted && !there) fault("{} is missing", describe({what, m}));
      if (there && !wanted) fault("{} has no counterpart", describe({what, m}));
    }
  }

  void in_order(Do first, Do second) {
    for (int m = 0; m < static_cast<int>(at_.size()); ++m) {
      const int a = place(first, m), b = place(second, m);
      if (a != absent && b != absent && a > b) {
        fault("{} comes before {}", describe({second, m}), describe({first, m}));
      }
    }
  }

 private:
  static constexpr int absent = -1;

  int& place(Do what, int m) { return at_[static_cast<std::size_t>(m)][index_of(what)]; }

  template <class... A>
  void fault(fmt::format_string<A...> text, A&&... args) {
    faults_.push_back(
        fmt::format("stage {}: {}", stage_, fmt::format(text, std::forward<A>(args)...)));
  }

  int stage_;
  std::vector<std::string>& faults_;
  std::vector<std::array<int, kinds>> at_;  // by microbatch: the index of each instruction
};

std::vector<int> microbatches_of(const Program& program, Do what) {
  std::vector<int> found;
  for (const auto& i : program) {
    if (i.what == what) found.push_back(i.microbatch);
  }
  return found;
}

void match(const Program& from, int sender, Do send, const Program& to, int receiver, Do receive,
           std::vector<std::string>& faults) {
  const auto sent = microbatches_of(from, send), received = microbatches_of(to, receive);
  const auto [a, b] = std::ranges::mismatch(sent, received);
  if (a == sent.end() && b == received.end()) return;
  const auto name = [](bool there, auto at) { return there ? std::to_string(*at) : "nothing"; };
  faults.push_back(fmt::format("stage {} sends {} where stage {} receives {} (message {} of {})",
                               sender, name(a != sent.end(), a), receiver,
                               name(b != received.end(), b), a - sent.begin(), name_of(send)));
}

}  // namespace

std::vector<std::string> program_faults(std::span<const Program> programs, int microbatches) {
  using enum Do;
  std::vector<std::string> faults;
  const int stages = static_cast<int>(programs.size());
  bool trained_above = false;
  for (int s = 0; s < stages; ++s) {
    const Program& p = programs[static_cast<std::size_t>(s)];
    const bool first = s == 0, last = s == stages - 1;
    const bool trained = trained_above || contains(p, backward);
    StageFaults stage(p, s, microbatches, faults);
    stage.all_or_none(receive_activation, !first);
    stage.all_or_none(forward, true);
    stage.all_or_none(send_activation, !last);
    stage.all_or_none(receive_gradient, trained && !last);
    stage.all_or_none(backward, trained);
    stage.all_or_none(send_gradient, trained_above);
    stage.in_order(receive_activation, forward);
    stage.in_order(forward, send_activation);
    stage.in_order(forward, backward);
    stage.in_order(receive_gradient, backward);
    stage.in_order(backward, send_gradient);
    if (!last) {
      const Program& next = programs[static_cast<std::size_t>(s) + 1];
      match(p, s, send_activation, next, s + 1, receive_activation, faults);
      match(next, s + 1, send_gradient, p, s, receive_gradient, faults);
    }
    trained_above = trained;
  }
  return faults;
}

InputLife input_life(const Program& program) {
  using enum Do;
  const Do begins = contains(program, receive_activation) ? receive_activation : forward;
  for (const Do ends : {send_gradient, backward}) {
    if (contains(program, ends)) return {begins, ends};
  }
  return {begins, forward};
}

PeakHeld peak_in_flight(const Program& program) {
  using enum Do;
  const auto [begins, ends] = input_life(program);
  return {.inputs = most_between(program, begins, ends),
          .arriving = std::max(most_between(program, receive_activation, forward),
                               most_between(program, receive_gradient, backward)),
          .leaving = std::max(most_between(program, forward, send_activation),
                              most_between(program, backward, send_gradient))};
}

}  // namespace trireme
