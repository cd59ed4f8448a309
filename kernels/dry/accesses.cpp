#include "kernels/dry/accesses.hpp"

#include <algorithm>
#include <iterator>

namespace trireme {

static std::size_t index(Queue q) {
  return static_cast<std::size_t>(q);
}

void Accesses::begin(const char* what, Queue q) {
  what_ = what;
  queue_ = q;
  ++clock_[index(q)][index(q)];
}

Event Accesses::record(Queue q) {
  auto& clock = clock_[index(q)];
  const auto ticket = ++clock[index(q)];
  recorded_[index(q)].emplace(ticket, clock);
  return {q, ticket};
}

void Accesses::wait(Queue q, Event e) {
  if (e.ticket == 0 || e.queue == q) return;
  const auto& seen = recorded_[index(e.queue)].at(e.ticket);
  auto& clock = clock_[index(q)];
  for (std::size_t i = 0; i < queue_count; ++i) clock[i] = std::max(clock[i], seen[i]);
}

bool Accesses::ordered(const Access& a) const {
  return a.ticket <= clock_[index(queue_)][index(a.queue)];
}

void Accesses::report(Touch touch, const Access& earlier, const char* earlier_kind) {
  constexpr std::string_view names[] = {"compute", "gather", "scatter", "exchange",
                                        "down",    "up",     "host"};
  ++race_count_;
  if (races_.size() < 8)
    races_.push_back(fmt::format("{} on queue {} {} bytes that {} on queue {} {} without order",
                                 what_, names[index(queue_)],
                                 touch == Touch::write ? "writes" : "reads", earlier.what,
                                 names[index(earlier.queue)], earlier_kind));
}

void Accesses::split(std::uint64_t at) {
  auto it = memory_.upper_bound(at);
  if (it == memory_.begin()) return;
  it = std::prev(it);
  if (it->first == at || it->second.end <= at) return;
  Bytes tail = it->second;
  it->second.end = at;
  memory_.emplace(at, tail);
}

void Accesses::touch(Touch touch, ConstView v) {
  if (!v || v.count() == 0) return;
  const auto begin = reinterpret_cast<std::uint64_t>(v.data), end = begin + v.span_bytes();
  const Access now{clock_[index(queue_)][index(queue_)], queue_, what_};
  split(begin);
  split(end);
  auto at = begin;
  for (auto it = memory_.lower_bound(begin); it != memory_.end() && it->first < end;) {
    auto& bytes = it->second;
    if (!ordered(bytes.write)) report(touch, bytes.write, "wrote");
    if (touch == Touch::write) {
      for (const auto& r : bytes.reads)
        if (!ordered(r)) report(touch, r, "read");
      it = memory_.erase(it);
      continue;
    }
    if (it->first > at)
      memory_.emplace(at, Bytes{it->first, {}, {}}).first->second.reads[index(queue_)] = now;
    bytes.reads[index(queue_)] = now;
    at = bytes.end;
    ++it;
  }
  if (touch == Touch::write) {
    memory_.emplace(begin, Bytes{end, now, {}});
  } else if (at < end) {
    memory_.emplace(at, Bytes{end, {}, {}}).first->second.reads[index(queue_)] = now;
  }
}

}  // namespace trireme
