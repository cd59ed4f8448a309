#include "kernels/dry/accesses.hpp"

#include <algorithm>
#include <iterator>

namespace trireme {

static std::size_t index(Queue q) {
  return static_cast<std::size_t>(q);
}

void Accesses::begin(std::string_view what, Queue q) {
  what_ = what;
  queue_ = q;
  ++clock_[index(q)][index(q)];
}

Event Accesses::record(Queue q) {
  return {q, ++clock_[index(q)][index(q)]};
}

Accesses::Clock Accesses::at(Event e) const {
  const auto& seen = seen_[index(e.queue)];
  const auto after = std::ranges::upper_bound(seen, e.ticket, {}, &Seen::from);
  Clock clock{};
  if (after != seen.begin()) clock = std::prev(after)->clock;
  clock[index(e.queue)] = e.ticket;
  return clock;
}

void Accesses::wait(Queue q, Event e) {
  if (e.ticket == 0 || e.queue == q) return;
  require(e.ticket <= clock_[index(e.queue)][index(e.queue)],
          "dry: a wait for ticket {}, which its queue has not reached", e.ticket);
  auto& clock = clock_[index(q)];
  const auto before = clock;
  const auto other = at(e);
  for (std::size_t i = 0; i < queue_count; ++i) clock[i] = std::max(clock[i], other[i]);
  if (clock == before) return;
  auto& seen = seen_[index(q)];
  const auto from = clock[index(q)] + 1;
  if (!seen.empty() && seen.back().from == from)
    seen.back().clock = clock;  // nothing was recorded in between
  else
    seen.push_back({from, clock});
  if (seen.size() >= forget_next_[index(q)]) forget(q);
}

// Erases each clock of the queue that sees the same recorded accesses as the clock before it. Later
// accesses have higher tickets than both clocks, so they cannot distinguish them either.
void Accesses::forget(Queue q) {
  std::array<std::vector<std::uint64_t>, queue_count> live;
  const auto note = [&](const Access& a) {
    if (a.ticket) live[index(a.queue)].push_back(a.ticket);
  };
  for (const auto& [begin, bytes] : memory_) {
    note(bytes.write);
    std::ranges::for_each(bytes.reads, note);
  }
  for (auto& tickets : live) std::ranges::sort(tickets);

  auto& seen = seen_[index(q)];
  std::array<std::ptrdiff_t, queue_count> last{};  // how many accesses of each queue are seen
  std::erase_if(seen, [&](const Seen& s) {
    std::array<std::ptrdiff_t, queue_count> now{};
    for (std::size_t i = 0; i < queue_count; ++i)
      if (i != index(q)) now[i] = std::ranges::upper_bound(live[i], s.clock[i]) - live[i].begin();
    const bool same = now == last;
    last = now;
    return same;
  });
  forget_next_[index(q)] = std::max(forget_at, 2 * seen.size());
}

std::size_t Accesses::size() const {
  auto n = memory_.size();
  for (const auto& seen : seen_) n += seen.size();
  return n;
}

bool Accesses::ordered(const Access& a) const {
  return a.ticket <= clock_[index(queue_)][index(a.queue)];
}

void Accesses::report(Touch touch, const Access& earlier, const char* earlier_kind) {
  ++race_count_;
  if (races_.size() < 8)
    races_.push_back(fmt::format("{} on queue {} {} bytes that {} on queue {} {} without order",
                                 what_, name_of(queue_), touch == Touch::write ? "writes" : "reads",
                                 earlier.what, name_of(earlier.queue), earlier_kind));
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

void Accesses::check(Touch touch, const Bytes& bytes) {
  if (!ordered(bytes.write)) report(touch, bytes.write, "wrote");
  if (touch == Touch::read) return;
  for (const auto& r : bytes.reads)
    if (!ordered(r)) report(touch, r, "read");
}

void Accesses::touch(Touch touch, ConstView v) {
  if (!v || v.count() == 0) return;
  const auto begin = reinterpret_cast<std::uint64_t>(v.data), end = begin + v.span_bytes();
  const Access now{clock_[index(queue_)][index(queue_)], queue_, what_};
  if (touch == Touch::write)
    write(begin, end, now);
  else
    read(begin, end, now);
}

void Accesses::write(std::uint64_t begin, std::uint64_t end, const Access& now) {
  auto it = memory_.lower_bound(begin);
  // Most writes are to exactly one interval.
  if (it == memory_.end() || it->first != begin || it->second.end != end) {
    split(begin);
    split(end);
    it = memory_.lower_bound(begin);
    if (it == memory_.end() || it->first != begin)
      it = memory_.emplace_hint(it, begin, Bytes{begin, {}, {}});
  }
  const auto written = it;
  for (; it != memory_.end() && it->first < end;
       it = it == written ? std::next(it) : memory_.erase(it))
    check(Touch::write, it->second);
  written->second = {end, now, {}};
}

void Accesses::read(std::uint64_t begin, std::uint64_t end, const Access& now) {
  auto it = memory_.lower_bound(begin);
  if (it == memory_.end() || it->first != begin || it->second.end != end) {
    split(begin);
    split(end);
    it = memory_.lower_bound(begin);
  }
  const auto unknown = [&](std::uint64_t from, std::uint64_t to) {
    const auto added = memory_.emplace_hint(it, from, Bytes{to, {}, {}});
    added->second.reads[index(queue_)] = now;
    return added;
  };
  auto last = memory_.end();  // the previous interval of this read
  for (auto at = begin; at < end;) {
    if (it == memory_.end() || it->first > at) {
      last = unknown(at, it == memory_.end() ? end : std::min(end, it->first));
      at = last->second.end;
      continue;
    }
    auto& bytes = it->second;
    check(Touch::read, bytes);
    bytes.reads[index(queue_)] = now;
    at = bytes.end;
    if (last != memory_.end() && last->second.same_accesses(bytes)) {
      last->second.end = bytes.end;
      it = memory_.erase(it);
    } else {
      last = it++;
    }
  }
}

}  // namespace trireme
