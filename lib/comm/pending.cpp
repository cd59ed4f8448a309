#include "lib/comm/pending.hpp"

#include <utility>

#include "lib/comm/engine/progress.hpp"

namespace trireme {

static engine::Progress& progress_of(const engine::Operation& o) {
  return *o.context()->progress;
}

Pending::Pending() noexcept = default;

Pending::Pending(std::unique_ptr<engine::Operation> o) : operation_(std::move(o)) {
  progress_of(*operation_).start(*operation_);
}

Pending::Pending(Pending&&) noexcept = default;

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    abandon();
    operation_ = std::move(other.operation_);
  }
  return *this;
}

Pending::~Pending() {
  abandon();
}

void Pending::abandon() noexcept {
  if (operation_) progress_of(*operation_).abandon(std::move(operation_));
}

Event Pending::wait(Queue q) {
  if (!operation_) return {};
  progress_of(*operation_).wait(*operation_);
  const auto done = std::move(operation_);
  const Event last = done->release();
  done->backend().wait(q, last);
  return last;
}

void Pending::keep(Tensor t) {
  expect(operation_ != nullptr, "an operation in flight keeps tensors");
  operation_->keep(std::move(t));
}

}  // namespace trireme
