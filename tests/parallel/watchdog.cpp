#include "tests/parallel/watchdog.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace trireme::test {

Watchdog::Watchdog(std::string who, std::chrono::seconds limit)
    : who_(std::move(who)), limit_(limit), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::at(const std::string& place) {
  {
    const std::lock_guard lock(mutex_);
    place_ = place;
    ++count_;
  }
  changed_.notify_all();
}

static double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const int seen = count_;
    const double before = processor_seconds(), enough = static_cast<double>(limit_.count()) / 3;
    const auto moved = [&] {
      return changed_.wait_for(lock, limit_, [&] { return over_ || count_ != seen; });
    };
    bool hangs = !moved();
    for (int again = 0; hangs && again < 2 && processor_seconds() - before < enough; ++again)
      hangs = !moved();
    if (!hangs) continue;
    std::fprintf(stderr, "[%s] no end after %lld s: %s\n", who_.c_str(),
                 static_cast<long long>(limit_.count()), place_.c_str());
    std::fflush(nullptr);
    std::_Exit(1);  // the launcher ends the other ranks
  }
}

}  // namespace trireme::test
