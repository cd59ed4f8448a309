#include "lib/train/signals.hpp"

#include <csignal>

#include <array>

namespace trireme {

static volatile std::sig_atomic_t stop_asked = 0, checkpoint_asked = 0;
static constexpr std::array watched{SIGTERM, SIGINT, SIGUSR1};
static std::array<struct sigaction, watched.size()> previous;

extern "C" {
static void on_signal(int number) {
  if (number == SIGUSR1) {
    checkpoint_asked = 1;
  } else if (stop_asked) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  } else {
    stop_asked = 1;
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

Asked SignalWatch::take() {
  if (stop_asked) return Asked::stop;
  const bool checkpoint = checkpoint_asked;
  checkpoint_asked = 0;
  return checkpoint ? Asked::checkpoint : Asked::nothing;
}

}  // namespace trireme
