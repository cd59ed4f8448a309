#include "kernels/trace.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace trireme {

static Trace::Clock clock_in_use;
static std::vector<TraceSpan> spans;
static std::string unit_now;

void Trace::start(Clock clock) {
  clock_in_use = std::move(clock);
  spans.clear();
  unit_now.clear();
  on_ = true;
}

std::vector<TraceSpan> Trace::stop() {
  on_ = false;
  return std::exchange(spans, {});
}

std::int64_t Trace::nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t Trace::now() {
  return clock_in_use();
}

void Trace::add(TraceSpan span) {
  spans.push_back(std::move(span));
}

static std::string text_of(const TraceSpan& s) {
  auto text = s.name;
  if (!s.unit.empty()) text += fmt::format(", {}", s.unit);
  if (s.microbatch >= 0) text += fmt::format(", microbatch {}", s.microbatch);
  return text;
}

void TraceScope::begin(std::string_view name, int microbatch, Direction direction,
                       std::string_view unit) {
  open_.emplace(Open{{}, unit_now, Trace::on(), Trace::display_});
  if (!unit.empty()) unit_now = unit;
  auto& span = open_->span;
  span.name = name;
  if (direction == Direction::backward) span.name += " grad";
  span.unit = unit_now;
  span.microbatch = microbatch;
  if (open_->shown) open_->shown->push(text_of(span).c_str());
  if (open_->recorded) span.begin = Trace::now();
}

void TraceScope::end() {
  if (open_->recorded && Trace::on()) {
    open_->span.end = Trace::now();
    Trace::add(std::move(open_->span));
  }
  if (open_->shown) open_->shown->pop();
  unit_now = open_->around;
}

}  // namespace trireme
