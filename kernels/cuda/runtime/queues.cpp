#include "kernels/cuda/runtime/queues.hpp"

#include <algorithm>

namespace trireme::cuda {

Queues::Queues(Runtime& runtime) : runtime_(runtime) {
  // Other ranks wait for data that is sent, so all queues except compute are urgent.
  for (int q = 0; q < queue_count; ++q)
    line(static_cast<Queue>(q)).stream =
        runtime_.create_stream(static_cast<Queue>(q) == Queue::compute ? Runtime::Urgency::usual
                                                                       : Runtime::Urgency::urgent);
}

Queues::~Queues() {
  for (auto& l : lines_) {
    for (const auto& p : l.pending) runtime_.destroy_mark(p.mark);
    runtime_.destroy_stream(l.stream);
  }
  for (auto* m : pool_) runtime_.destroy_mark(m);
}

void Queues::retire(Line& l) {
  while (!l.pending.empty() && runtime_.passed(l.pending.front().mark)) {
    l.passed = l.pending.front().ticket;
    pool_.push_back(l.pending.front().mark);
    l.pending.pop_front();
  }
}

Event Queues::record(Queue q) {
  auto& l = line(q);
  retire(l);
  if (pool_.empty()) {
    pool_.push_back(runtime_.create_mark());
    ++made_;
  }
  auto* const mark = pool_.back();
  runtime_.record(mark, l.stream);
  pool_.pop_back();
  l.pending.push_back({++l.last, mark});
  return {q, l.last};
}

// Makes q wait for the first mark at or after the ticket. All earlier work of the event's queue is
// done by then.
void Queues::wait(Queue q, Event e) {
  auto& waiting = line(q).waited[static_cast<std::size_t>(e.queue)];
  if (e.queue == q || e.ticket <= waiting) return;
  const auto& l = line(e.queue);
  if (e.ticket <= l.passed) return;
  const auto at = std::ranges::lower_bound(l.pending, e.ticket, {}, &Pending::ticket);
  expect(at != l.pending.end(), "a ticket that has not passed has a mark");
  runtime_.wait(line(q).stream, at->mark);
  waiting = at->ticket;
}

void Queues::synchronize(Queue q) {
  runtime_.synchronize(stream(q));
}

bool Queues::done(Event e) {
  auto& l = line(e.queue);
  if (e.ticket > l.passed) retire(l);
  return e.ticket <= l.passed;
}

}  // namespace trireme::cuda
