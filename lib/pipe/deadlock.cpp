#include "lib/pipe/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "lib/base/error.hpp"
#include "lib/pipe/checker.hpp"

namespace trireme {
namespace {

using enum Do;

constexpr int none = -1;
constexpr int unlimited = 1 << 30;
constexpr std::size_t most_queues = 3;

enum class Way : std::uint8_t { down, up };

bool is_send(Do what) {
  return what == send_activation || what == send_gradient;
}

bool is_receive(Do what) {
  return what == receive_activation || what == receive_gradient;
}

Way way_of(Do message) {
  return message == send_activation || message == receive_activation ? Way::down : Way::up;
}

std::size_t queue_of(Do what, Queues queues) {
  if (queues == Queues::host || computes(what)) return 0;
  return queues == Queues::joint || way_of(what) == Way::down ? 1 : 2;
}

// Of each kind the one whose result it reads, of the same microbatch and chunk.
Do read_by(Do what, Do back) {
  switch (what) {
    case receive_activation:
    case receive_gradient:
      return what;  // none
    case forward:
      return receive_activation;
    case send_activation:
      return forward;
    case backward:
    case input_gradients:
      return receive_gradient;
    case send_gradient:
      return back;
    case weight_gradients:
      return input_gradients;
  }
  return what;
}

// One stage: its program split into queues, and the progress of each.
struct Stage {
  Stage(const Program& p, Queues queues, int chunks, int sets)
      : program(p), free_sets(sets), done(p.size(), 0) {
    for (int c = 0; c < chunks; ++c) life.push_back(input_life(p, c));
    std::map<std::tuple<Do, int, int>, int> place;
    for (std::size_t i = 0; i < p.size(); ++i) {
      place[{p[i].what, p[i].microbatch, p[i].chunk}] = static_cast<int>(i);
      queue[queue_of(p[i].what, queues)].push_back(i);
    }
    const Do back = backward_of(p);
    for (const auto& i : p) {
      const Do kind = read_by(i.what, back);
      const auto read = place.find({kind, i.microbatch, i.chunk});
      reads.push_back(kind == i.what || read == place.end() ? none : read->second);
    }
  }

  bool ended(std::size_t q) const { return next[q] == queue[q].size(); }
  std::size_t head(std::size_t q) const { return queue[q][next[q]]; }

  // The index of the instruction whose result the head still needs, or none.
  int lacks(std::size_t q) const {
    const int read = reads[head(q)];
    return read == none || done[static_cast<std::size_t>(read)] != 0 ? none : read;
  }
  bool has_room(std::size_t q) const {
    return free_sets > 0 || program[head(q)].what != life_of(q).begins;
  }
  bool prepared(std::size_t q) const { return lacks(q) == none && has_room(q); }

  void complete(std::size_t q) {
    const Do what = program[head(q)].what;
    const auto [begins, ends] = life_of(q);
    if (what == begins) --free_sets;
    if (what == ends) ++free_sets;
    done[head(q)] = 1;
    ++next[q];
  }

  const InputLife& life_of(std::size_t q) const {
    return life[static_cast<std::size_t>(program[head(q)].chunk)];
  }

  const Program& program;
  std::vector<InputLife> life;  // by chunk
  int free_sets;
  std::array<std::vector<std::size_t>, most_queues> queue;  // indices into the program
  std::array<std::size_t, most_queues> next = {};
  std::vector<int> reads;  // by index: the index whose result it reads, or none
  std::vector<char> done;  // by index
};

class Simulation {
 public:
  Simulation(std::span<const Program> programs, const Execution& e)
      : sends_(e.sends), queues_(e.queues), links_(2 * programs.size()) {
    expect(e.sets.empty() || e.sets.size() == programs.size(), "sets are given for every stage");
    for (const auto& p : programs)
      for (const auto& i : p) chunks_ = std::max(chunks_, i.chunk + 1);
    for (std::size_t s = 0; s < programs.size(); ++s) {
      stages_.emplace_back(programs[s], queues_, chunks_, e.sets.empty() ? unlimited : e.sets[s]);
    }
  }

  std::vector<Wait> run() {
    // From the first to the last stage and back: one sweep moves a tensor through all stages.
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < count(); ++s) moved |= advance(s);
      for (int s = count() - 1; s >= 0; --s) moved |= advance(s);
    }
    std::vector<Wait> waits;
    for (int s = 0; s < count(); ++s) {
      for (std::size_t q = 0; q < most_queues; ++q) {
        if (!at(s).ended(q)) waits.push_back({s, at(s).program[at(s).head(q)], reason(s, q)});
      }
    }
    return waits;
  }

 private:
  struct Link {
    int sent = 0, received = 0;
  };

  int count() const { return static_cast<int>(stages_.size()); }
  Stage& at(int s) { return stages_[static_cast<std::size_t>(s)]; }

  // The stage at the other end, or none.
  int peer_of(int s, const Instruction& message) const {
    const int step = (way_of(message.what) == Way::down) == is_send(message.what) ? 1 : -1;
    const int at = message.chunk * count() + s + step;
    return at >= 0 && at < chunks_ * count() ? at % count() : none;
  }
  Link& link(int s, const Instruction& message) {
    const int sender = is_send(message.what) ? s : peer_of(s, message);
    return links_[static_cast<std::size_t>(2 * sender + static_cast<int>(way_of(message.what)))];
  }

  bool advance(int s) {
    bool moved = false;
    for (bool again = true; again;) {
      again = false;
      for (std::size_t q = 0; q < most_queues; ++q) {
        while (!at(s).ended(q) && may_run(s, q)) {
          again = moved = true;
          complete(s, q);
        }
      }
    }
    return moved;
  }

  const Instruction& next(int s, std::size_t q) { return at(s).program[at(s).head(q)]; }

  bool may_run(int s, std::size_t q) {
    const auto& i = next(s, q);
    if (!at(s).prepared(q)) return false;
    if (!is_send(i.what) && !is_receive(i.what)) return true;
    if (peer_of(s, i) == none) return false;
    const Link& l = link(s, i);
    if (is_receive(i.what)) return l.sent > l.received;
    if (sends_ == Sends::blocking) return receives_now(peer_of(s, i), i.what);
    return sends_ == Sends::posted || l.sent == l.received;
  }

  // Is the matching receive of a blocking send the next instruction, and ready?
  bool receives_now(int peer, Do send) {
    const Do receive = send == send_activation ? receive_activation : receive_gradient;
    const std::size_t q = queue_of(receive, queues_);
    return !at(peer).ended(q) && at(peer).program[at(peer).head(q)].what == receive &&
           at(peer).prepared(q);
  }

  void complete(int s, std::size_t q) {
    const Instruction i = next(s, q);
    at(s).complete(q);
    if (is_receive(i.what)) ++link(s, i).received;
    if (!is_send(i.what)) return;
    ++link(s, i).sent;
    if (sends_ == Sends::blocking) complete(peer_of(s, i), queue_of(i.what, queues_));
  }

  std::string reason(int s, std::size_t q) {
    const Stage& stage = at(s);
    const Do what = next(s, q).what;
    if (const int read = stage.lacks(q); read != none) {
      return "its own " + describe(stage.program[static_cast<std::size_t>(read)]);
    }
    if (!stage.has_room(q)) return "room for one more input";
    const int peer = peer_of(s, next(s, q));
    if (peer == none) return "a stage that does not exist";
    const std::size_t there = queue_of(what, queues_);
    const std::string stands =
        at(peer).ended(there) ? "has ended"
                              : "stands at " + describe(at(peer).program[at(peer).head(there)]);
    return fmt::format("stage {} to {}, which {}", peer,
                       is_receive(what)                   ? "send it"
                       : sends_ == Sends::one_outstanding ? "receive the one before"
                                                          : "receive it",
                       stands);
  }

  Sends sends_;
  Queues queues_;
  int chunks_ = 1;
  std::vector<Link> links_;  // two a stage: what it sends down, what it sends up
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<Wait> stuck(std::span<const Program> programs, const Execution& execution) {
  return Simulation(programs, execution).run();
}

std::string describe(std::span<const Wait> waits) {
  std::string text;
  for (const auto& [stage, instruction, reason] : waits) {
    text += fmt::format("{}stage {}: {} waits for {}", text.empty() ? "" : "\n", stage,
                        describe(instruction), reason);
  }
  return text;
}

}  // namespace trireme
