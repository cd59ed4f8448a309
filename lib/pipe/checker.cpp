#include "lib/pipe/checker.hpp"

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
      if (wanted && !there) fault("{} is missing", describe({what, m, chunk}));
      if (there && !wanted) fault("{} has no counterpart", describe({what, m, chunk}));
    }
  }

  void in_order(Do first, Do second, int chunk) {
    for (int m = 0; m < microbatches_; ++m) {
      const int a = place(first, m, chunk), b = place(second, m, chunk);
      if (a != absent && b != absent && a > b) {
        fault("{} comes before {}", describe({second, m, chunk}), describe({first, m, chunk}));
      }
    }
  }

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

// Microbatch and chunk of each message, the chunk's number moved by `shift`.
std::vector<std::pair<int, int>> messages_of(const Program& program, Do what, int shift) {
  std::vector<std::pair<int, int>> found;
  for (const auto& i : program) {
    if (i.what == what) found.emplace_back(i.microbatch, i.chunk + shift);
  }
  return found;
}

// Receives are named by the sender's chunk: between the last stage and the first the next one has
// another number.
void match(const Program& from, int sender, Do send, const Program& to, int receiver, Do receive,
           int shift, std::vector<std::string>& faults) {
  const auto sent = messages_of(from, send, 0), received = messages_of(to, receive, shift);
  const auto [a, b] = std::ranges::mismatch(sent, received);
  if (a == sent.end() && b == received.end()) return;
  const auto name = [](bool there, auto at) {
    if (!there) return std::string("nothing");
    const auto& [m, chunk] = *at;
    return chunk == 0 ? std::to_string(m) : fmt::format("{} of chunk {}", m, chunk);
  };
  faults.push_back(fmt::format("stage {} sends {} where stage {} receives {} (message {} of {})",
                               sender, name(a != sent.end(), a), receiver,
                               name(b != received.end(), b), a - sent.begin(), name_of(send)));
}

}  // namespace

std::vector<std::string> program_faults(std::span<const Program> programs, int microbatches,
                                        int chunks) {
  using enum Do;
  std::vector<std::string> faults;
  const int stages = static_cast<int>(programs.size());
  std::vector<StageFaults> checks;
  for (int s = 0; s < stages; ++s)
    checks.emplace_back(programs[static_cast<std::size_t>(s)], s, microbatches, chunks, faults);
  bool trained_above = false;
  for (int at = 0; at < stages * chunks; ++at) {
    const int s = at % stages, c = at / stages;
    const Program& p = programs[static_cast<std::size_t>(s)];
    const Do back = backward_of(p);
    const bool halves = back == input_gradients;
    const bool from_above = at > 0 && stages > 1, to_below = at + 1 < stages * chunks && stages > 1;
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
    trained_above = trained;
  }
  const int pairs = stages == 1 ? 0 : chunks == 1 ? stages - 1 : stages;  // that exchange messages
  for (int s = 0; s < pairs; ++s) {
    const int next = (s + 1) % stages, shift = next == 0 ? 1 : 0;
    const Program &here = programs[static_cast<std::size_t>(s)],
                  &there = programs[static_cast<std::size_t>(next)];
    match(here, s, send_activation, there, next, receive_activation, -shift, faults);
    match(there, next, send_gradient, here, s, receive_gradient, shift, faults);
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
