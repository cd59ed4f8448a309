#include "lib/comm/pending.hpp"

#include <utility>

#include "lib/comm/in_flight.hpp"

namespace trireme {

std::string_view name_of(Doing d) {
  constexpr std::string_view names[] = {"gather",  "scatter", "exchange", "send",
                                        "receive", "tie",     "agree"};
  return names[static_cast<int>(d)];
}

std::string to_string(const Label& l) {
  auto text = fmt::format("{}", name_of(l.doing));
  if (!l.unit.empty()) text += fmt::format(" of {}", l.unit);
  if (l.microbatch >= 0) text += fmt::format(", microbatch {}", l.microbatch);
  return text;
}

Pending::Pending() noexcept = default;

Pending::Pending(std::unique_ptr<Job> job) : job_(std::move(job)) {
  InFlight::here().start(*job_);
}

Pending::Pending(Pending&&) noexcept = default;

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    if (job_) InFlight::here().abandon(std::move(job_));
    job_ = std::move(other.job_);
  }
  return *this;
}

Pending::~Pending() {
  if (job_) InFlight::here().abandon(std::move(job_));
}

Event Pending::wait(Queue q) {
  if (!job_) return {};
  InFlight::here().wait_for(*job_);
  const auto job = std::move(job_);
  const Event last = job->release();
  job->backend().wait(q, last);
  return last;
}

void Pending::keep(Tensor t) {
  expect(job_ != nullptr, "an operation in flight keeps tensors");
  job_->keep(std::move(t));
}

}  // namespace trireme
