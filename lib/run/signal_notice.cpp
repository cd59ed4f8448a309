#include "lib/run/signal_notice.hpp"

#include <string>

#include "lib/base/log.hpp"

namespace trireme {

SignalNotice::SignalNotice(SignalWatch& signals, double grace) : signals_(signals), grace_(grace) {
  signals_.announce([this](std::string_view name, RunRequest request) { log(name, request); });
}

SignalNotice::~SignalNotice() {
  signals_.announce({});
}

void SignalNotice::begin_step(std::int64_t step, Dropping dropping) {
  dropping_ = dropping;
  step_ = step;
}

void SignalNotice::log(std::string_view name, RunRequest request) const {
  const auto step = step_.load();
  auto first = step > 0 ? fmt::format("completes step {}, ", step) : std::string();
  if (step > 0 && dropping_ == Dropping::possible)
    first = fmt::format(
        "completes step {}, or drops it if that would take longer than run.signal_grace = {} s, ",
        step, grace_);
  log_info("{} arrived: the run {}saves a checkpoint and {}", name, first,
           request == RunRequest::stop ? "ends" : "continues");
}

}  // namespace trireme
