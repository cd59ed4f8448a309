#include "lib/run/signals.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

static std::atomic<bool> stop_asked = false, checkpoint_asked = false;
static std::atomic<std::int64_t> stop_time = 0, interrupt_time = 0;  // nanoseconds
// Descriptor that wakes the listener, signal that first requested a stop, and number of checkpoint
// requests that are not announced yet.
static std::atomic<int> wake = -1, stop_number = 0, checkpoints_new = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);  // signal handlers write them

// Launchers and terminals may deliver one request several times. An interrupt this many nanoseconds
// after the first one is another request.
constexpr std::int64_t apart = 2'000'000'000;

static std::int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);  // allowed in signal handlers
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}
static constexpr std::array watched{SIGTERM, SIGINT, SIGHUP, SIGUSR1};
static std::array<struct sigaction, watched.size()> previous;
static sigset_t previous_mask;

// Returns true if the signal must stay ignored. nohup ignores SIGHUP.
static bool left_alone(int number) {
  struct sigaction now = {};
  return number == SIGHUP && sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Returns true if a write found no reader. SIGPIPE is blocked and therefore stays pending, while
// the write fails with EPIPE.
static bool output_is_closed() {
  sigset_t pending;
  sigemptyset(&pending);
  return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

static void wake_listener() {
  const auto before = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake, &one, sizeof one);
  errno = before;
}

static const char* name_of_signal(int number) {
  return number == SIGTERM ? "SIGTERM" : number == SIGINT ? "SIGINT" : "SIGHUP";
}

extern "C" {
static void on_signal(int number) {
  if (number == SIGUSR1) {
    checkpoint_asked = true;
    ++checkpoints_new;
    wake_listener();
    return;
  }
  const auto time = now();
  if (!stop_asked) {
    stop_time = time;
    stop_number = number;
  }
  stop_asked = true;
  wake_listener();
  if (number != SIGINT) return;
  if (interrupt_time == 0) {
    interrupt_time = time;
  } else if (time - interrupt_time >= apart) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}
}

// Runs on the listener thread, which receives and announces the signals.
void SignalWatch::listen(const std::stop_token& over, const sigset_t& signals) {
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const std::stop_callback end(over, wake_listener);
  for (std::uint64_t n = 0; !over.stop_requested();) {
    if (::read(woken_, &n, sizeof n) < 0 && errno != EINTR) return;
    tell();
  }
}

void SignalWatch::tell() {
  const std::scoped_lock lock(mutex_);
  if (!announced_) return;
  if (checkpoints_new.exchange(0) > 0) announced_("SIGUSR1", RunRequest::checkpoint);
  if (stop_asked && !std::exchange(stop_announced_, true))
    announced_(name_of_signal(stop_number), RunRequest::stop);
}

void SignalWatch::announce(Listener listener) {
  {
    const std::scoped_lock lock(mutex_);
    announced_ = std::move(listener);
  }
  wake_listener();
}

void hold_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : watched) sigaddset(&held, number);
  sigaddset(&held, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

SignalWatch::SignalWatch() : woken_(eventfd(0, EFD_CLOEXEC)) {
  require(woken_ >= 0, "cannot create an eventfd for signals: error {}", errno);
  wake = woken_;
  stop_number = 0;
  checkpoints_new = 0;
  stop_asked = false;
  checkpoint_asked = false;
  interrupt_time = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigset_t signals;
  sigemptyset(&signals);
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const bool handled = !left_alone(watched[i]);
    sigaction(watched[i], handled ? &action : nullptr, &previous[i]);
    if (handled) sigaddset(&signals, watched[i]);
  }
  sigset_t blocked = signals;
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, &previous_mask);
  constexpr timespec at_once{};
  for (int number = 0; (number = sigtimedwait(&signals, nullptr, &at_once)) > 0;) on_signal(number);
  listener_ = std::jthread([this, signals](const std::stop_token& over) { listen(over, signals); });
}

SignalWatch::~SignalWatch() {
  listener_ = {};
  wake = -1;
  ::close(woken_);
  if (stop()) return;  // the process ends, and further signals must not interrupt it
  pthread_sigmask(SIG_SETMASK, &previous_mask, nullptr);
  for (std::size_t i = 0; i < watched.size(); ++i) sigaction(watched[i], &previous[i], nullptr);
}

bool SignalWatch::stop() const {
  return stop_asked || output_is_closed();
}

double SignalWatch::seconds_since_stop() const {
  return stop_asked ? static_cast<double>(now() - stop_time) * 1e-9 : 0;
}

RunRequest SignalWatch::take() {
  if (stop()) return RunRequest::stop;
  return checkpoint_asked.exchange(false) ? RunRequest::checkpoint : RunRequest::nothing;
}

}  // namespace trireme
