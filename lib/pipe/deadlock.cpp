#include "lib/pipe/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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
  if (queues == Queues::host || what == forward || what == backward) return 0;
  return queues == Queues::joint || way_of(what) == Way::down ? 1 : 2;
}

// One stage: its program split into queues, and the progress of each.
struct Stage {
  Stage(const Program& p, Queues queues, int sets)
      : program(p), life(input_life(p)), free_sets(sets), done(p.size(), 0) {
    // Within a microbatch an instruction reads what the one before it in this order left.
    constexpr std::array<int, 6> read_by_kind = {none, 0, 1, none, 3, 4};
    std::vector<std::array<int, 6>> place;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const auto kind = static_cast<std::size_t>(p[i].what);
      const auto m = static_cast<std::size_t>(p[i].microbatch);
      while (place.size() <= m) place.push_back({none, none, none, none, none, none});
      place[m][kind] = static_cast<int>(i);
      queue[queue_of(p[i].what, queues)].push_back(i);
    }
    for (const auto& i : p) {
      const int kind = read_by_kind[static_cast<std::size_t>(i.what)];
      reads.push_back(
          kind == none
              ? none
              : place[static_cast<std::size_t>(i.microbatch)][static_cast<std::size_t>(kind)]);
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
    return free_sets > 0 || program[head(q)].what != life.begins;
  }
  bool prepared(std::size_t q) const { return lacks(q) == none && has_room(q); }

  void complete(std::size_t q) {
    const Do what = program[head(q)].what;
    if (what == life.begins) --free_sets;
    if (what == life.ends) ++free_sets;
    done[head(q)] = 1;
    ++next[q];
  }

  const Program& program;
  InputLife life;
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
    for (std::size_t s = 0; s < programs.size(); ++s) {
      stages_.emplace_back(programs[s], queues_, e.sets.empty() ? unlimited : e.sets[s]);
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
  bool exists(int s) const { return s >= 0 && s < count(); }

  static int peer_of(int s, Do message) {
    return s + ((way_of(message) == Way::down) == is_send(message) ? 1 : -1);
  }
  Link& link(int s, Do message) {
    const int sender = is_send(message) ? s : peer_of(s, message);
    return links_[static_cast<std::size_t>(2 * sender + static_cast<int>(way_of(message)))];
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

  bool may_run(int s, std::size_t q) {
    const Do what = at(s).program[at(s).head(q)].what;
    if (!at(s).prepared(q)) return false;
    if (!is_send(what) && !is_receive(what)) return true;
    if (!exists(peer_of(s, what))) return false;
    const Link& l = link(s, what);
    if (is_receive(what)) return l.sent > l.received;
    if (sends_ == Sends::blocking) return receives_now(peer_of(s, what), what);
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
    const Do what = at(s).program[at(s).head(q)].what;
    at(s).complete(q);
    if (is_receive(what)) ++link(s, what).received;
    if (!is_send(what)) return;
    ++link(s, what).sent;
    if (sends_ == Sends::blocking) complete(peer_of(s, what), queue_of(what, queues_));
  }

  std::string reason(int s, std::size_t q) {
    const Stage& stage = at(s);
    const Do what = stage.program[stage.head(q)].what;
    if (const int read = stage.lacks(q); read != none) {
      return "its own " + describe(stage.program[static_cast<std::size_t>(read)]);
    }
    if (!stage.has_room(q)) return "room for one more input";
    const int peer = peer_of(s, what);
    if (!exists(peer)) return "a stage that does not exist";
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
