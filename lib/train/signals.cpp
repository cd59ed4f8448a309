#include "lib/train/signals.hpp"

#include <csignal>
#include <ctime>

#include <array>

namespace trireme {

static volatile std::sig_atomic_t stop_asked = 0, checkpoint_asked = 0;
static volatile std::int64_t stop_second = 0;

// Launchers and terminals deliver one stop several times; a second one is a wish of its own.
constexpr std::int64_t apart_seconds = 2;

static std::int64_t now_second() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);  // may be called in a handler
  return t.tv_sec;
}
static constexpr std::array watched{SIGTERM, SIGINT, SIGUSR1};
static std::array<struct sigaction, watched.size()> previous;

extern "C" {
static void on_signal(int number) {
  if (number == SIGUSR1) {
    checkpoint_asked = 1;
  } else if (!stop_asked) {
    stop_second = now_second();
    stop_asked = 1;
  } else if (now_second() - stop_second >= apart_seconds) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}
}

SignalWatch::SignalWatch() {
  stop_asked = 0;
  checkpoint_asked = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < watched.size(); ++i) sigaction(watched[i], &action, &previous[i]);
}

SignalWatch::~SignalWatch() {
  for (std::size_t i = 0; i < watched.size(); ++i) sigaction(watched[i], &previous[i], nullptr);
}

bool SignalWatch::stop() const {
  return stop_asked;
}

Asked SignalWatch::take() {
  if (stop_asked) return Asked::stop;
  const bool checkpoint = checkpoint_asked;
  checkpoint_asked = 0;
  return checkpoint ? Asked::checkpoint : Asked::nothing;
}

}  // namespace trireme
