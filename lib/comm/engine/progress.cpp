#include "lib/comm/engine/progress.hpp"

#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

#include "kernels/trace.hpp"

namespace trireme::engine {

// MPI may still write to the memory of a failed operation, so it is never given back.
static void never_destroy(std::unique_ptr<Operation> failed) {
  static auto& all = *new std::vector<std::unique_ptr<Operation>>;
  all.push_back(std::move(failed));
}

void Progress::configure(const Settings& s) {
  // A message's bytes are an int; 8 bytes an element at most.
  require(s.chunk >= 1 && s.chunk <= 1 << 27, "{} elements of a message: use 1 to {}", s.chunk,
          1 << 27);
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
          fail("{} failed on the device, or something before it: {}", what, e.what());
        }
        return on_stream_.empty();
      },
      oldest);
}

bool Progress::poll() {
  if (in_flight_.empty()) return false;
  bool moved = false;
  for (auto* o : in_flight_) moved = o->advance() || moved;
  std::erase_if(in_flight_, [](const Operation* o) { return o->ended(); });
  return moved;
}

// Yields the core. sched_yield does so only within a scheduling group, and Linux may give each rank
// its own; so a rank that has waited for longer than a small message takes sleeps. With more ranks
// than cores, the one it waits for may need this core.
static void yield(std::chrono::duration<double> idle) {
  using namespace std::chrono_literals;
  if (idle < 500us)
    sched_yield();
  else
    std::this_thread::sleep_for(20us);
}

void Progress::wait_until(const std::function<bool()>& done,
                          const std::function<std::string()>& what) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  auto moved = began;
  const double limit = settings_.hang_timeout;
  while (!done()) {
    if (poll()) {
      moved = Clock::now();
      continue;
    }
    const auto now = Clock::now();
    yield(now - moved);
    const std::chrono::duration<double> waited = now - began;
    if (limit > 0 && waited.count() > limit)
      fail(
          "{} is not finished after {} s: another rank has died, is stuck or calls operations in "
          "another order. A longer run.hang_timeout waits longer, run.debug compares the order",
          what(), limit);
  }
}

void Progress::wait(Operation& o) {
  std::optional<TraceScope> span;
  if (Trace::on() && !o.ended()) {
    const auto& [doing, unit, microbatch] = o.label();
    span.emplace(fmt::format("wait for {}", name_of(doing)), microbatch, Direction::forward, unit);
  }
  wait_until([&] { return o.ended(); },
             [&] { return fmt::format("{} ({})", o.name(), o.state()); });
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
    wait_until([&] { return o.ended(); }, [&] { return o.name(); });
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
