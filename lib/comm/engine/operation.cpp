#include "lib/comm/engine/operation.hpp"

#include <algorithm>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/comm/engine/progress.hpp"

namespace trireme::engine {
namespace {

// MPI guarantees tags only up to 32767. Tags may be reused, because messages with the same tag
// arrive in order.
constexpr int collective_tags = 1 << 14, pair_tags = (1 << 14) - 1;

int pair_tag(const Label& label) {
  return collective_tags + (label.microbatch + 1) % pair_tags;
}

int tag_of(const Call& c, std::uint64_t number) {
  return c.pattern == Pattern::collective ? static_cast<int>(number % collective_tags)
                                          : pair_tag(c.label);
}

Sequence* sequence_of(Context& context, const Call& c) {
  if (!context.host) return nullptr;
  const int tag = c.pattern == Pattern::collective ? -1 : pair_tag(c.label);
  return &context.sequences[{c.pattern, c.peer, tag}];
}

// Allocates staging buffers for Call::most elements, or for the longest message. Returns no buffers
// if messages can use the operands directly.
template <class Message>
Staging staging_of(const Route& r, const std::vector<Message>& messages, const Call& c,
                   bool computes) {
  Staging s;
  const bool direct = r.direct();
  if ((messages.empty() && c.most == 0) || (direct && !computes)) return s;
  std::int64_t longest = c.most;
  for (const auto& m : messages) longest = std::max(longest, m.view.count());
  s.message =
      Tensor::empty(r.backend, {static_cast<std::int64_t>(Staging::buffers), longest}, c.wire,
                    MemoryKind::staging, r.queue, direct ? Memory::device : Memory::pinned);
  if (computes && !direct)
    s.cast = Tensor::empty(r.backend, {longest}, c.wire, MemoryKind::staging, r.queue);
  return s;
}

Staging staging_out(const Route& r, const Call& c) {
  return staging_of(r, c.messages.out, c, c.wire != c.type);  // staged for casts
}

Staging staging_in(const Route& r, const Call& c) {
  return staging_of(r, c.messages.in, c, c.arriving == Accumulate::add);  // staged for sums
}

Route route_of(const Context& context, Backend& b, Queue queue, const Call& c, int tag) {
  const bool staged = c.wire != c.type || c.arriving == Accumulate::add;
  auto* device = context.device.get();
  Transport* transport = device;
  if (!device) transport = context.host.get();
  return {b, queue, transport, device, tag, staged, context.progress->delays()};
}

}  // namespace

Operation::Operation(std::shared_ptr<Context> context, Backend& backend, Queue queue, Call c)
    : context_(std::move(context)),
      backend_(backend),
      queue_(queue),
      label_(c.label),
      own_dst_(c.own_dst),
      own_src_(c.own_src),
      own_how_(c.own_how),
      pattern_(c.pattern),
      sequence_(sequence_of(*context_, c)),
      number_(sequence_ ? sequence_->called : 0),
      route_(route_of(*context_, backend, queue, c, tag_of(c, number_))),
      sends_{route_, staging_out(route_, c), std::move(c.messages.out)},
      receives_{route_, staging_in(route_, c), std::move(c.messages.in), c.arriving},
      native_{route_, c.native},
      start_(backend.record(queue)) {
  // Count the call last. If the allocation of staging buffers throws, the operation was never
  // called, and later operations must not wait for it.
  if (sequence_) ++sequence_->called;
  if (Trace::on()) issued_ = Trace::now();
}

bool Operation::begin() {
  // Sends and receives between devices run in the order of the calls on the stream, and they add
  // nothing. They need not wait for earlier operations.
  const bool in_order = route_.device && pattern_ != Pattern::collective;
  if (sequence_ && sequence_->complete != number_ && !in_order) return false;
  if (!route_.device && !backend_.done(start_)) return false;
  // Copy only after earlier operations have completed, because they may still add to this memory.
  if (own_dst_)
    backend_.put(queue_, kernel::Copy{.dst = own_dst_, .src = own_src_, .how = own_how_});
  return true;
}

// Between GPUs, posts messages in groups. A group is posted only after the previous group has
// completed, so that both sides post the same messages in it.
bool Operation::post() {
  if (!route_.device) return static_cast<int>(sends_.post()) | static_cast<int>(receives_.post());
  if (native_.post()) return true;
  if (!sends_.idle() || !receives_.idle()) return false;
  struct Group {
    DeviceTransport& device;
    bool open = true;
    Group(DeviceTransport& d, void* stream) : device(d) { device.begin_group(stream); }
    void close() { open = false, device.end_group(); }
    ~Group() {
      if (open) try {
          device.end_group();
        } catch (const Error&) {  // an earlier error is already propagating
        }
    }
  } group(*route_.device, route_.stream());
  const bool sent = sends_.post(), received = receives_.post();
  group.close();
  return sent || received;
}

bool Operation::advance() {
  if (complete_ || !error_.empty()) return false;
  try {
    if (!context_->broken.empty())
      fail("this communication is not possible after an earlier failure ({})", context_->broken);
    if (!begun_) begun_ = begin();
    if (!begun_) return false;
    bool moved = post();
    for (const bool completed : {sends_.test(), receives_.test(), native_.test()})
      moved = moved || completed;
    complete_ = sends_.complete() && receives_.complete() && native_.complete();
    if (complete_ && sequence_) ++sequence_->complete;
    if (complete_) {
      done_ = backend_.record(queue_);
      trace();
    }
    return moved || complete_;
  } catch (const std::exception& e) {
    error_ = fmt::format("{}: {}", name(), e.what());
    if (context_->host && context_->broken.empty()) context_->broken = error_;
    return false;
  }
}

void Operation::trace() const {
  if (!issued_ || !Trace::on() || !name_.empty()) return;
  Trace::add({queue_, std::string(name_of(label_.doing)), std::string(label_.unit),
              label_.microbatch, *issued_, Trace::now()});
}

// Uses the event recorded on completion and not one recorded now. Later operations on the queue,
// such as the next unit's all-gather, then do not delay those who wait for this one.
Event Operation::release() {
  const Event last = complete_ ? done_ : backend_.record(queue_);
  sends_.release(last);
  receives_.release(last);
  native_.release(last);
  for (const auto& t : kept_) t.used(last);
  kept_.clear();
  return last;
}

std::string Operation::state() const {
  if (!context_->host) return "its queue has not finished earlier work";
  const auto& t = *context_->host;
  auto text = fmt::format("call {}: rank {} of {}, ", number_ + 1, t.rank(), t.size());
  if (!begun_) return text + "has not begun it, because earlier work is not finished";
  const auto waits = [&](const char* what, const auto& side) {
    if (side.complete()) return;
    const auto& m = side.messages()[side.completed()];
    text += fmt::format("{} rank {} (message {} of {}), ", what, m.peer, side.completed() + 1,
                        side.messages().size());
  };
  waits("receives from", receives_);
  waits("sends to", sends_);
  return text.substr(0, text.size() - 2);
}

}  // namespace trireme::engine
