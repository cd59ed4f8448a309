#include "lib/comm/in_flight.hpp"

#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/comm/settings.hpp"

namespace trireme {

InFlight& InFlight::here() {
  static auto& all = *new InFlight;
  return all;
}

void InFlight::start(Job& job) {
  while (job.step()) {
  }
  if (!job.finished()) moving_.push_back(&job);
  watch(job);
}

void InFlight::watch(const Job& job) {
  if (job.channel() && job.channel()->device && job.finished())
    underway_.push_back(
        {job.channel(), &job.backend(), job.backend().record(job.queue()), job.label()});
}

void InFlight::settle() {
  if (underway_.empty()) return;
  const auto oldest = [&] { return to_string(underway_.front().label); };
  wait_until(
      [&] {
        try {
          std::erase_if(underway_, [](const Underway& u) {
            return u.channel.expired() || u.backend->done(u.last);
          });
          if (!underway_.empty()) underway_.front().channel.lock()->device->check();
        } catch (const Error& e) {
          const auto what = oldest();
          underway_.clear();
          fail("{} failed on the device, or something before it: {}", what, e.what());
        }
        return underway_.empty();
      },
      oldest);
}

bool InFlight::poke() {
  if (moving_.empty()) return false;
  bool moved = false;
  for (auto* job : moving_) moved = job->step() || moved;
  std::erase_if(moving_, [](const Job* job) { return job->over(); });
  return moved;
}

// Gives way to whoever else wants this core. sched_yield does so within a scheduling group, and
// Linux may give each rank one of its own, so a rank that waits for longer than a small message
// takes sleeps: with more ranks than cores the one it waits for may be behind it.
static void rest(std::chrono::duration<double> idle) {
  using namespace std::chrono_literals;
  if (idle < 500us)
    sched_yield();
  else
    std::this_thread::sleep_for(20us);
}

void InFlight::wait_until(const std::function<bool()>& done,
                          const std::function<std::string()>& what) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  auto moved = began;
  const double limit = comm_settings().hang_timeout;
  while (!done()) {
    if (poke()) {
      moved = Clock::now();
      continue;
    }
    const auto now = Clock::now();
    rest(now - moved);
    const std::chrono::duration<double> waited = now - began;
    if (limit > 0 && waited.count() > limit)
      fail(
          "{} is not finished after {} s: another rank has died, is stuck or calls operations in "
          "another order. A longer run.hang_timeout waits longer, run.debug compares the order",
          what(), limit);
  }
}

void InFlight::wait_for(Job& job) {
  std::optional<TraceScope> span;
  if (Trace::on() && !job.over()) {
    const auto& [doing, unit, microbatch] = job.label();
    span.emplace(fmt::format("wait for {}", name_of(doing)), microbatch, Direction::forward, unit);
  }
  wait_until([&] { return job.over(); },
             [&] { return fmt::format("{} ({})", job.name(), job.state()); });
  if (!job.error().empty()) throw Error(job.error());
}

void InFlight::abandon(std::unique_ptr<Job> job) noexcept {
  job->remember_name();
  abandoned_.push_back(std::move(job));
}

std::vector<std::string> InFlight::left_over() const {
  std::vector<std::string> names;
  for (const auto& job : abandoned_) names.push_back(job->name());
  return names;
}

void InFlight::drain() {
  std::string errors;
  try {
    settle();
  } catch (const Error& e) {
    errors = e.what();
  }
  while (!abandoned_.empty()) {
    auto& job = *abandoned_.front();
    wait_until([&] { return job.over(); }, [&] { return job.name(); });
    if (job.finished()) {
      job.backend().wait(Queue::compute, job.release());
    } else {
      errors += fmt::format("{}{}", errors.empty() ? "" : "; ", job.error());
      failed_.push_back(std::move(abandoned_.front()));
    }
    abandoned_.erase(abandoned_.begin());
  }
  if (!errors.empty()) throw Error(errors);
}

}  // namespace trireme
