#include "lib/comm/engine/progress.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/base/timesheet.hpp"

namespace trireme::engine {

using Clock = std::chrono::steady_clock;

// Keeps a failed operation until the process ends, because MPI may still write to its memory.
static void never_destroy(std::unique_ptr<Operation> failed) {
  static auto& all = *new std::vector<std::unique_ptr<Operation>>;
  all.push_back(std::move(failed));
}

void Progress::configure(const Settings& s) {
  // MPI counts the bytes of a message in an int, and an element has at most 8 bytes.
  require(s.chunk >= 1 && s.chunk <= 1 << 27,
          "{} elements per message are out of range: use 1 to {}", s.chunk, 1 << 27);
  settings_ = s;
  delays_.seed = s.random_delays;
}

void Progress::start(Operation& o) {
  while (o.advance()) {
  }
  if (!o.complete()) in_flight_.push_back(&o);
  watch(o);
}

void Progress::watch(const Operation& o) {
  if (o.context()->device && o.complete())
    on_stream_.push_back({o.context(), &o.backend(), o.backend().record(o.queue()), o.label()});
}

void Progress::synchronize() {
  if (on_stream_.empty()) return;
  const auto oldest = [&] { return to_string(on_stream_.front().label); };
  wait_until(
      [&] {
        try {
          std::erase_if(on_stream_, [](const OnStream& s) {
            return s.context.expired() || s.backend->done(s.last);
          });
          if (!on_stream_.empty()) on_stream_.front().context.lock()->device->check();
        } catch (const Error& e) {
          const auto what = oldest();
          on_stream_.clear();
          fail("{} or an earlier operation failed on the device: {}", what, e.what());
        }
        return on_stream_.empty();
      },
      [&]() -> Wait {
        return {oldest(), "on the device's stream"};
      });
}

bool Progress::poll() {
  if (companion_) companion_();
  if (in_flight_.empty()) return false;
  bool moved = false;
  for (auto* o : in_flight_) moved = o->advance() || moved;
  std::erase_if(in_flight_, [](const Operation* o) { return o->ended(); });
  return moved;
}

// Yields the core. sched_yield() yields only within a scheduling group, and Linux may put each rank
// into a separate group. Therefore a rank that has waited longer than a small message takes sleeps
// instead. If there are more ranks than cores, the rank that it waits for may need this core.
static void yield(std::chrono::duration<double> idle) {
  using namespace std::chrono_literals;
  if (idle < 500us)
    sched_yield();
  else
    std::this_thread::sleep_for(20us);
}

static double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Returns how many seconds to wait for answers after the limit. Ranks begin to wait at different
// times, and therefore reach the limit at different times.
static double patience(double limit) {
  return std::clamp(limit / 4, 0.5, 10.0);
}

void Progress::ask(const std::function<Wait()>& own, const std::function<bool()>& done) {
  roll_call_->ask();
  const auto began = Clock::now();
  while (!roll_call_->everyone_answered() && !done() &&
         seconds_between(began, Clock::now()) < patience(settings_.hang_timeout)) {
    poll();
    roll_call_->poll(own, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Progress::hang(const Wait& own, bool overdue) {
  std::string all = ": another rank has died, is stuck or calls operations in another order. ";
  if (roll_call_ && roll_call_->rank() == 0) {
    all = roll_call_->account(own) + "\n";
  } else if (roll_call_ && !roll_call_->heard()) {
    const auto& root = roll_call_->processes()[0];
    all = fmt::format(
        ", and rank 0 (process {} on {}) does not answer: it has died, is stuck or still "
        "computes. ",
        root.id, root.host);
  }
  const auto what = overdue ? fmt::format("{} is not finished after {} s ({})", own.what,
                                          settings_.hang_timeout, own.state)
                            : std::string("a rank has waited for longer than run.hang_timeout");
  fail(
      "{}{}Raise run.hang_timeout to wait longer, or set run.debug = true to compare the order of "
      "operations",
      what, all);
}

void Progress::wait_until(const std::function<bool()>& done, const std::function<Wait()>& what) {
  using namespace std::chrono_literals;
  const auto began = Clock::now();
  auto moved = began, looked = began;
  const double limit = settings_.hang_timeout;
  const bool root = roll_call_ && roll_call_->rank() == 0;
  struct Alarm {
    RollCall* roll_call = nullptr;
    ~Alarm() {
      if (roll_call) roll_call->withdraw();
    }
  } alarm;
  bool came = false;  // `done` must not be called again after it returned true
  const std::function<bool()> is_done = [&] { return came = came || done(); };
  while (!is_done()) {
    if (poll()) {
      moved = Clock::now();
      continue;
    }
    const auto now = Clock::now();
    yield(now - moved);
    if (limit <= 0) continue;
    const double waited = seconds_between(began, now);
    const bool overdue = waited > limit;
    if (roll_call_ && (overdue || now - looked > 20ms)) {
      looked = now;
      const bool alarmed = roll_call_->poll(what, overdue);
      if (root && (alarmed || overdue)) {
        ask(what, is_done);
        // The awaited event may have occurred meanwhile.
        if (!is_done() && (overdue || roll_call_->anyone_overdue())) hang(what(), overdue);
        continue;
      }
    }
    if (!overdue) continue;
    if (!roll_call_ || waited > limit + 2 * patience(limit)) hang(what(), true);
    if (alarm.roll_call) continue;
    roll_call_->alarm(what());
    alarm.roll_call = roll_call_.get();
  }
}

void Progress::wait(Operation& o) {
  if (observer_) observer_->wait(o);
  std::optional<TraceScope> span;
  if (Trace::on() && !o.ended()) {
    const auto& [doing, unit, microbatch] = o.label();
    span.emplace(fmt::format("wait for {}", name_of(doing)), microbatch, Direction::forward, unit);
  }
  std::optional<TaskScope> task;
  if (!o.ended()) task.emplace(task_by_kind[static_cast<std::size_t>(o.label().doing)]);
  wait_until([&] { return o.ended(); }, [&]() -> Wait { return {o.name(), o.state()}; });
  if (!o.error().empty()) throw Error(o.error());
}

void Progress::abandon(std::unique_ptr<Operation> o) noexcept {
  o->remember_name();
  abandoned_.push_back(std::move(o));
}

std::vector<std::string> Progress::abandoned() const {
  std::vector<std::string> names;
  for (const auto& o : abandoned_) names.push_back(o->name());
  return names;
}

void Progress::drain() {
  std::string errors;
  try {
    synchronize();
  } catch (const Error& e) {
    errors = e.what();
  }
  while (!abandoned_.empty()) {
    auto& o = *abandoned_.front();
    wait_until([&] { return o.ended(); }, [&]() -> Wait { return {o.name(), o.state()}; });
    if (o.complete()) {
      o.backend().wait(Queue::compute, o.release());
    } else {
      errors += fmt::format("{}{}", errors.empty() ? "" : "; ", o.error());
      never_destroy(std::move(abandoned_.front()));
    }
    abandoned_.erase(abandoned_.begin());
  }
  if (!errors.empty()) throw Error(errors);
}

}  // namespace trireme::engine
