// Every order of what two processes do about one lock, and three, with crashes, stalls and removals
// between any two of their steps, on a model of a file: the decisions are those of the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/io/lock_rules.hpp"

namespace trireme {
namespace {

// A tick of the model is a millisecond of the rules.
constexpr LockTimes ticks{.heartbeat = std::chrono::milliseconds(2),
                          .slack = std::chrono::milliseconds(1),
                          .silence = std::chrono::milliseconds(5),
                          .look = std::chrono::milliseconds(1)};
constexpr int heartbeat = 2, longest = 7;  // longest: past silence, and past a grace

enum class Flaw {
  none,
  no_grace,
  short_grace,
  short_silence,
  create_replaces,
  blind_heartbeat,
  blind_publishing
};

enum class At : std::uint8_t {
  out,
  looking,
  creating,
  replacing,
  waiting,  // on its way
  training,
  publishing,
  leaving,  // it has the lock, or thinks so
  done,
  refused,
  lost,
  crashed
};

struct Process {
  LockAttempt attempt{{}, ticks};
  At at = At::out;
  bool stalled = false, locks = false;  // locks: has a flock on what it is about to replace
  bool owned = false;                   // when it last looked before it publishes
  int due = 0;                          // ticks until its next look or heartbeat
  bool alive() const { return at >= At::looking && at <= At::leaving; }
  bool has_it() const { return at >= At::training && at <= At::leaving; }
};

struct World {
  std::vector<Process> processes;
  int owner = -1, time = 0;  // of the lock: a process, -1: there is none; its last sign of life
  int now = 0;
  int events = 0;      // that may still come
  int overlapped = 0;  // ticks for which two that do not stall have it
  bool stalls = false, removals = false, crashes = false;  // that came
};

std::string key_of(const World& w, const std::vector<std::string>& texts) {
  std::string key;
  const auto add = [&](int value) { key += static_cast<char>(value + 1); };
  add(w.owner), add(w.events), add(w.overlapped), add(w.stalls), add(w.removals), add(w.crashes);
  for (const auto& p : w.processes) {
    add(static_cast<int>(p.at)), add(p.stalled), add(p.locks), add(p.owned), add(p.due);
    const auto& t = p.attempt;
    add(static_cast<int>(t.grace.count() / 1'000'000));
    if (!p.alive() || p.has_it()) continue;
    add(std::min<int>(longest, w.now - static_cast<int>(t.since.count() / 1'000'000)));
    add(!t.before ? 0 : 1 + t.before->there);
    if (!t.before || !t.before->there) continue;
    for (std::size_t o = 0; o < w.processes.size(); ++o)
      if (t.before->text == texts[o]) add(static_cast<int>(o));
    add(t.before->time == w.time);
  }
  return key;
}

// Walks through all states that can be reached and says what is wrong with the first bad one.
class Search {
 public:
  Search(std::vector<LockHolder> holders, int events, Flaw flaw = Flaw::none, bool flocks = true)
      : flaw_(flaw), flocks_(flocks) {
    World first;
    first.events = events;
    auto times = ticks;
    if (flaw == Flaw::no_grace) times.slack = -times.heartbeat;
    if (flaw == Flaw::short_grace) times.slack = -std::chrono::milliseconds(1);
    if (flaw == Flaw::short_silence) times.silence = std::chrono::milliseconds(0);
    for (auto& holder : holders) {
      holder.id = std::to_string(first.processes.size());
      texts_.push_back(text_of(holder));
      first.processes.push_back({.attempt = {std::move(holder), times}});
    }
    for (auto& p : first.processes)
      for (auto& q : first.processes)
        requeues_ = requeues_ ||
                    (p.attempt.me.job != "-" && p.attempt.me.job == q.attempt.me.job && &p != &q);
    reach(first);
    while (wrong_.empty() && !open_.empty()) {
      const auto w = std::move(open_.back());
      open_.pop_back();
      visit(w);
    }
  }
  const std::string& wrong() const { return wrong_; }
  std::size_t states() const { return seen_.size(); }

 private:
  bool share_pids_of(const Process& a, const Process& b) const {
    return share_pids(a.attempt.me, b.attempt.me);
  }

  LockObservation seen_by(const World& w, const Process& p) const {
    using Liveness = LockObservation::Liveness;
    if (w.owner < 0) return {};
    const auto& other = w.processes[std::size_t(w.owner)];
    LockObservation seen{true, texts_[std::size_t(w.owner)], w.time, Liveness::unknown};
    if (&other == &p || !share_pids_of(other, p)) return seen;
    bool lives = other.alive();
    for (const auto& q : w.processes) lives = lives || (&q != &p && q.locks && q.alive());
    seen.liveness = lives     ? Liveness::alive
                    : flocks_ ? Liveness::ended_and_flocked
                              : Liveness::ended;
    return seen;
  }

  // It looks and decides; what it then does may come later.
  void look(World& w, std::size_t i) {
    auto& p = w.processes[i];
    const auto seen = seen_by(w, p);
    switch (p.attempt.next(seen, std::chrono::milliseconds(w.now))) {
      case LockStep::create:
        p.at = At::creating;
        break;
      case LockStep::replace:
        p.at = At::replacing;
        p.locks = seen.liveness == LockObservation::Liveness::ended_and_flocked;
        break;
      case LockStep::wait:
        p.at = At::waiting;
        p.due = 1;
        break;
      case LockStep::have:
        p.at = At::training;
        p.due = heartbeat;
        break;
      case LockStep::refuse:
        p.at = At::refused;
        for (const auto& q : w.processes)
          if (&q != &p && q.alive()) return;
        if (!w.crashes) wrong_ = "a process is refused though no other one lives";
    }
  }

  // What it does next, at this moment. False where it has nothing to do before its time has come.
  bool step(World& w, std::size_t i) {
    auto& p = w.processes[i];
    const bool owns = w.owner == static_cast<int>(i);
    const auto put = [&] {
      w.owner = static_cast<int>(i);
      ++w.time;
    };
    switch (p.at) {
      case At::looking:
        look(w, i);
        return true;
      case At::creating:
        if (w.owner < 0 || flaw_ == Flaw::create_replaces) put();
        p.at = At::looking;
        return true;
      case At::replacing:
        put();
        p.locks = false;
        p.at = At::looking;
        return true;
      case At::waiting:
        if (p.due > 0) return false;
        p.at = At::looking;
        return true;
      case At::training:
        if (p.due > 0) return false;
        p.due = heartbeat;
        if (owns)
          ++w.time;
        else if (flaw_ != Flaw::blind_heartbeat)
          p.at = At::lost;
        return true;
      case At::publishing:
        if (!p.owned) wrong_ = "a process publishes that had lost the lock before it looked";
        p.at = At::training;
        return true;
      case At::leaving:  // it saw that the lock is its own, and removes what is there now
        w.owner = -1;
        p.at = At::done;
        return true;
      default:
        return false;
    }
  }

  // What a process may begin that trains; it looks at its lock first.
  void begin(const World& w, std::size_t i, At next) {
    auto after = w;
    auto& p = after.processes[i];
    p.owned = w.owner == static_cast<int>(i);
    p.at = p.owned || flaw_ == Flaw::blind_publishing ? next : At::lost;
    reach(after);
  }

  void tick(World& w) const {
    ++w.now;
    int training = 0;
    for (auto& p : w.processes) {
      if (p.due > 0) --p.due;
      training += p.has_it() && !p.stalled;
    }
    w.overlapped = training > 1 ? w.overlapped + 1 : 0;
  }

  void visit(const World& w) {
    bool idle = true, stalled = false;
    for (std::size_t i = 0; i < w.processes.size(); ++i) {
      const auto& p = w.processes[i];
      auto after = w;
      if (p.at == At::out) {
        after.processes[i].at = At::looking;
        reach(after);
      } else if (p.stalled) {
        stalled = true;
        after.processes[i].stalled = false;
        reach(after);
      } else if (step(after, i)) {
        idle = false;
        reach(after);
      }
      if (p.at == At::training && !p.stalled) {
        begin(w, i, At::publishing);
        begin(w, i, At::leaving);
      }
      if (w.events == 0 || !p.alive()) continue;
      after = w;
      --after.events;
      after.crashes = true;
      after.processes[i].at = At::crashed;
      after.processes[i].locks = false;
      reach(after);
      if (p.stalled) continue;
      after = w;
      --after.events;
      after.stalls = true;
      after.processes[i].stalled = true;
      reach(after);
    }
    if (w.events > 0 && w.owner >= 0) {
      auto after = w;
      --after.events;
      after.removals = true;
      after.owner = -1;
      reach(after);
    }
    if (idle) {
      if (!stalled) check_end(w);
      auto after = w;
      tick(after);
      reach(after);
    }
  }

  void reach(const World& w) {
    if (!wrong_.empty() || !seen_.insert(key_of(w, texts_)).second) return;
    int holding = 0, all_refused = 1;
    for (const auto& p : w.processes) {
      holding += p.has_it();
      all_refused = all_refused && (p.at == At::refused || p.at == At::lost);
      if (p.at == At::lost && !requeues_ && !w.stalls && !w.removals)
        wrong_ = "a process that gave its signs of life lost the lock";
    }
    if (holding > 1 && !w.stalls && !w.removals) wrong_ = "two have the lock";
    if (w.overlapped > heartbeat) wrong_ = "two have the lock for longer than a heartbeat";
    if (all_refused && !w.stalls && !w.removals) wrong_ = "nobody got the lock";
    if (wrong_.empty()) open_.push_back(w);
  }

  // Nothing more goes wrong: whoever wants the lock has it or was refused, and when all that have
  // it die it can be taken.
  void check_end(World w) {
    run_on(w);
    if (somebody_waits(w)) wrong_ = "a process waits for ever";
    if (!checked_.insert(w.owner).second) return;
    for (auto& p : w.processes)
      if (p.alive()) p.at = At::crashed;
    const LockHolder last{.host = "c", .pid_space = "m", .id = "last"};
    texts_.push_back(text_of(last));
    w.processes.push_back({.attempt = {last, ticks}, .at = At::looking});
    w.crashes = true;
    run_on(w);
    if (!w.processes.back().has_it()) wrong_ = "a lock that is free cannot be taken";
    texts_.pop_back();
  }

  static bool somebody_waits(const World& w) {
    return std::ranges::any_of(w.processes, [](const auto& p) { return p.alive() && !p.has_it(); });
  }

  void run_on(World& w) {
    for (int i = 0; i < 4 * longest && somebody_waits(w); ++i) {
      for (std::size_t p = 0; p < w.processes.size(); ++p)
        while (step(w, p) && w.processes[p].due == 0) {
        }
      tick(w);
    }
  }

  Flaw flaw_;
  bool flocks_, requeues_ = false;
  std::vector<std::string> texts_;  // of the processes' locks
  std::unordered_set<std::string> seen_;
  std::vector<World> open_;
  std::set<int> checked_;  // owners whose lock was found to be free when all were dead
  std::string wrong_;
};

const LockHolder here{.host = "a", .pid_space = "k"}, beside{.host = "a", .pid_space = "k"},
    elsewhere{.host = "a", .pid_space = "l"},  // such as a container of the same host
    first_start{.job = "7", .host = "a", .pid_space = "k"},
    requeued{.job = "7", .restart = 1, .host = "b", .pid_space = "l"},
    requeued_here{.job = "7", .restart = 1, .host = "a", .pid_space = "k"},
    recovered{.job = "7", .recovery = 1, .host = "b", .pid_space = "l"};

TEST(LockModel, TwoProcessesAndThreeEventsInEveryOrder) {
  for (const auto& [one, other, flocks] :
       {std::tuple(here, beside, true), std::tuple(here, beside, false),
        std::tuple(here, elsewhere, true), std::tuple(first_start, requeued, true),
        std::tuple(first_start, requeued_here, true), std::tuple(first_start, recovered, true)}) {
    const Search search({one, other}, 3, Flaw::none, flocks);
    EXPECT_EQ(search.wrong(), "") << text_of(one) << ", " << text_of(other);
    EXPECT_GT(search.states(), 10'000u);
  }
}

TEST(LockModel, ThreeProcesses) {
  const Search search({first_start, requeued, beside}, 1);
  EXPECT_EQ(search.wrong(), "");
}

// A model that finds nothing proves nothing.
TEST(LockModel, FindsWhatIsWrongWithOtherRules) {
  for (const auto flaw : {Flaw::create_replaces, Flaw::blind_heartbeat, Flaw::blind_publishing})
    EXPECT_NE(Search({here, elsewhere}, 2, flaw).wrong(), "") << static_cast<int>(flaw);
  for (const auto flaw : {Flaw::no_grace, Flaw::short_grace})
    EXPECT_EQ(Search({first_start, requeued}, 2, flaw).wrong(), "two have the lock");
  EXPECT_NE(Search({here, elsewhere}, 0, Flaw::short_silence).wrong(), "");
}

}  // namespace
}  // namespace trireme
