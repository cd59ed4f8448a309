#include "kernels/cuda/runtime/queues.hpp"

#include <algorithm>

namespace trireme::cuda {

Queues::Queues(Runtime& runtime) : runtime_(runtime) {
  // Other ranks wait for what is sent; nobody else waits for compute.
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
  if (recorder_) runtime_.destroy_stream(recorder_);
}

void Queues::retire(Line& l) {
  while (!l.pending.empty() && runtime_.passed(l.pending.front().mark)) {
    l.passed = l.pending.front().ticket;
    pool_.push_back(l.pending.front().mark);
    l.pending.pop_front();
  }
}

// Of all tickets given out.
void Queues::put_mark(Line& l) {
  retire(l);
  if (pool_.empty()) {
    pool_.push_back(runtime_.create_mark());
    ++made_;
  }
  auto* const mark = pool_.back();
  runtime_.record(mark, l.stream);
  pool_.pop_back();
  l.pending.push_back({l.last, mark});
}

Event Queues::record(Queue q) {
  auto& l = line(q);
  ++l.last;
  if (stream(q) == l.stream) put_mark(l);
  return {q, l.last};
}

// The first mark at or behind the ticket: all of a queue's work before it is done by then.
void Queues::wait(Queue q, Event e) {
  auto& waiting = line(q).waited[static_cast<std::size_t>(e.queue)];
  if (e.queue == q || e.ticket <= waiting) return;
  const auto& l = line(e.queue);
  if (e.ticket <= l.passed) return;
  const auto at = std::ranges::lower_bound(l.pending, e.ticket, {}, &Pending::ticket);
  require(at != l.pending.end(), "queue {} waits for work that is being recorded into a graph",
          name_of(q));
  runtime_.wait(line(q).stream, at->mark);
  waiting = at->ticket;
}

void Queues::synchronize(Queue q) {
  require(stream(q) == line(q).stream, "queue {} is being recorded into a graph", name_of(q));
  runtime_.synchronize(stream(q));
}

void Queues::begin_recording() {
  if (!recorder_) recorder_ = runtime_.create_stream();
  runtime_.begin_recording(recorder_);
  recording_ = true;
}

Runtime::Graph Queues::end_recording(Runtime::Graph like) {
  recording_ = false;
  return runtime_.end_recording(recorder_, like);
}

void Queues::launch(Runtime::Graph g) {
  auto& l = line(Queue::compute);
  runtime_.launch(g, l.stream);
  put_mark(l);
}

// Who holds a ticket of what was dropped waits for what was there before.
void Queues::drop_recording() noexcept {
  recording_ = false;
  runtime_.drop_recording(recorder_);
  try {
    put_mark(line(Queue::compute));
  } catch (...) {  // the device is lost, which the next call reports
  }
}

bool Queues::done(Event e) {
  auto& l = line(e.queue);
  if (e.ticket > l.passed) retire(l);
  return e.ticket <= l.passed;
}

}  // namespace trireme::cuda
