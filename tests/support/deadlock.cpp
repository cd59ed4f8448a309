#include "tests/support/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "lib/base/error.hpp"
#include "tests/support/program_checker.hpp"

namespace trireme {
namespace {

using enum Do;

constexpr int none = -1;
constexpr int unlimited = 1 << 30;
constexpr std::size_t most_queues = 3;

bool is_send(Do what) {
  return what == send_activation || what == send_gradient;
}

// Of each kind the one whose result it reads, of the same microbatch and chunk, where a message
// brings it.
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
struct StageRun {
  StageRun(const Route& route, const Program& p, int stage, Queues q, int chunks, int sets)
      : program(p), queues(q), all_sets(sets), done(p.size(), 0) {
    for (int c = 0; c < chunks; ++c) life.push_back(input_life(p, c));
    int microbatches = 0;
    for (const auto& i : p) microbatches = std::max(microbatches, i.microbatch + 1);
    const auto key = [&](Do what, int m, int chunk) {
      return static_cast<std::size_t>(
          (chunk * kinds_of_work + static_cast<int>(what)) * microbatches + m);
    };
    std::vector<int> place(key(Do{0}, 0, chunks + 1), none);
    for (std::size_t i = 0; i < p.size(); ++i) {
      place[key(p[i].what, p[i].microbatch, p[i].chunk)] = static_cast<int>(i);
      const auto other = computes(p[i].what) ? std::nullopt : route.other(stage, p[i]);
      queue[computes(p[i].what) ? 0 : queue_of_messages(other ? other->toward : Toward::down)]
          .push_back(i);
    }
    const Do back = backward_of(p);
    const auto made_by = [&](Do kind, int m, int chunk) { return place[key(kind, m, chunk)]; };
    int begun = 0;
    for (const auto& i : p) {
      begun_before.push_back(begun);
      begun += i.what == life[static_cast<std::size_t>(i.chunk)].begins ? 1 : 0;
      const Do kind = read_by(i.what, back);
      int read = kind == i.what ? none : made_by(kind, i.microbatch, i.chunk);
      if (read == none && i.what == forward && i.chunk > 0)  // handed on without a message
        read = made_by(forward, i.microbatch, i.chunk - 1);
      if (read == none && i.what == back) read = made_by(back, i.microbatch, i.chunk + 1);
      reads.push_back(read);
    }
  }

  // Where messages of a direction wait.
  std::size_t queue_of_messages(Toward toward) const {
    return queues == Queues::host ? 0 : queues == Queues::split && toward == Toward::up ? 2 : 1;
  }
  bool ended(std::size_t q) const { return next[q] == queue[q].size(); }
  std::size_t head(std::size_t q) const { return queue[q][next[q]]; }

  // The index of the instruction whose result the head still needs, or none.
  int lacks(std::size_t q) const {
    const int read = reads[head(q)];
    return read == none || done[static_cast<std::size_t>(read)] != 0 ? none : read;
  }
  bool has_room(std::size_t q) const {
    return begun_before[head(q)] - ended_sets < all_sets ||
           program[head(q)].what != life_of(q).begins;
  }
  bool prepared(std::size_t q) const { return lacks(q) == none && has_room(q); }

  void complete(std::size_t q) {
    if (program[head(q)].what == life_of(q).ends) ++ended_sets;
    done[head(q)] = 1;
    ++next[q];
  }

  const InputLife& life_of(std::size_t q) const {
    return life[static_cast<std::size_t>(program[head(q)].chunk)];
  }

  const Program& program;
  Queues queues;
  std::vector<InputLife> life;  // by chunk
  int all_sets, ended_sets = 0;
  std::vector<int> begun_before;  // by index: inputs; sets are taken in the order of the program
  std::array<std::vector<std::size_t>, most_queues> queue;  // indices into the program
  std::array<std::size_t, most_queues> next = {};
  std::vector<int> reads;  // by index: the index whose result it reads, or none
  std::vector<char> done;  // by index
};

class Simulation {
 public:
  Simulation(const Route& route, std::span<const Program> programs, const Execution& e)
      : route_(route), sends_(e.sends), links_(4 * programs.size()) {
    expect(e.sets.empty() || e.sets.size() == programs.size(), "sets are given for every stage");
    const int chunks = route.virtual_stages() / static_cast<int>(programs.size());
    for (std::size_t s = 0; s < programs.size(); ++s) {
      stages_.emplace_back(route, programs[s], static_cast<int>(s), e.queues, chunks,
                           e.sets.empty() ? unlimited : e.sets[s]);
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
  StageRun& at(int s) { return stages_[static_cast<std::size_t>(s)]; }

  // Messages of one kind from one stage in one direction.
  Link& link(int s, const Instruction& message, const Route::Other& other) {
    const int sender = is_send(message.what) ? s : other.stage;
    const int kind =
        2 * static_cast<int>(other.toward) + (other.sent.what == send_gradient ? 1 : 0);
    return links_[static_cast<std::size_t>(4 * sender + kind)];
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
    if (computes(i.what)) return true;
    const auto other = route_.other(s, i);
    if (!other) return false;
    const Link& l = link(s, i, *other);
    if (!is_send(i.what)) return l.sent > l.received;
    if (sends_ == Sends::blocking) return receiving(i, *other).has_value();
    return sends_ == Sends::posted || l.sent == l.received;
  }

  // The queue in which the matching receive of a blocking send is next, and ready.
  std::optional<std::size_t> receiving(const Instruction& send, const Route::Other& to) {
    for (std::size_t q = 0; q < most_queues; ++q) {
      if (at(to.stage).ended(q)) continue;
      const Instruction& i = next(to.stage, q);
      if (computes(i.what) || is_send(i.what)) continue;
      const auto from = route_.other(to.stage, i);
      if (from && from->sent == send && at(to.stage).prepared(q)) return q;
    }
    return std::nullopt;
  }

  void complete(int s, std::size_t q) {
    const Instruction i = next(s, q);
    if (computes(i.what)) return at(s).complete(q);
    const auto other = *route_.other(s, i);
    if (!is_send(i.what)) {
      ++link(s, i, other).received;
      return at(s).complete(q);
    }
    const auto receiver = sends_ == Sends::blocking ? receiving(i, other) : std::nullopt;
    at(s).complete(q);
    ++link(s, i, other).sent;
    if (receiver) complete(other.stage, *receiver);
  }

  std::string reason(int s, std::size_t q) {
    const StageRun& stage = at(s);
    const Do what = next(s, q).what;
    if (const int read = stage.lacks(q); read != none) {
      return "its own " + describe(stage.program[static_cast<std::size_t>(read)]);
    }
    if (!stage.has_room(q)) return "room for one more input";
    const auto other = route_.other(s, next(s, q));
    if (!other) return "a stage that does not exist";
    const std::size_t there = at(other->stage).queue_of_messages(other->toward);
    const std::string stands = at(other->stage).ended(there)
                                   ? "has ended"
                                   : "stands at " + describe(next(other->stage, there));
    return fmt::format("stage {} to {}, which {}", other->stage,
                       !is_send(what)                     ? "send it"
                       : sends_ == Sends::one_outstanding ? "receive the one before"
                                                          : "receive it",
                       stands);
  }

  const Route& route_;
  Sends sends_;
  std::vector<Link> links_;  // four a stage that sends
  std::vector<StageRun> stages_;
};

}  // namespace

std::vector<Wait> stuck(const Route& route, std::span<const Program> programs,
                        const Execution& execution) {
  return Simulation(route, programs, execution).run();
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
