#include "lib/comm/job.hpp"

#include <algorithm>
#include <utility>

#include "kernels/trace.hpp"

namespace trireme {
namespace {

// MPI promises tags up to 32767. Messages of one tag arrive in order, so numbers may come again.
constexpr int tags_of_all = 1 << 14, tags_of_two = (1 << 14) - 1;

int tag_of_two(const Label& label) {
  return tags_of_all + (label.microbatch + 1) % tags_of_two;
}

int tag_of(const Operation& o, std::uint64_t turn) {
  return o.between == Between::all ? static_cast<int>(turn % tags_of_all) : tag_of_two(o.label);
}

Turns* turns_of(Channel* c, const Operation& o) {
  if (!c) return nullptr;
  return &c->turns[{o.between, o.peer, o.between == Between::all ? -1 : tag_of_two(o.label)}];
}

// Pieces that hold the longest message; none where the operands themselves can travel.
template <class Message>
Staging staging_of(const Route& r, const std::vector<Message>& messages, DType wire, bool works) {
  Staging s;
  const bool direct = r.direct();
  if (messages.empty() || (direct && !works)) return s;
  std::int64_t longest = 0;
  for (const auto& m : messages) longest = std::max(longest, m.view.count());
  s.wire = Tensor::empty(r.backend, {static_cast<std::int64_t>(Staging::pieces), longest}, wire,
                         Kind::staging, r.queue, direct ? Memory::device : Memory::pinned);
  if (works && !direct)
    s.device = Tensor::empty(r.backend, {longest}, wire, Kind::staging, r.queue);
  return s;
}

Staging staging_out(const Route& r, const Operation& o) {
  return staging_of(r, o.messages.out, o.wire, o.wire != o.type);  // casts
}

Staging staging_in(const Route& r, const Operation& o) {
  return staging_of(r, o.messages.in, o.wire, o.arriving == Accumulate::add);  // sums
}

Route route_of(const Channel* c, Backend& b, Queue queue, const Operation& o, int tag) {
  const bool staged = o.wire != o.type || o.arriving == Accumulate::add;
  if (!c) return {b, queue, nullptr, nullptr, tag, staged};
  if (c->device) return {b, queue, c->device.get(), c->device.get(), tag, staged};
  return {b, queue, c->transport.get(), nullptr, tag, staged};
}

}  // namespace

Job::Job(std::shared_ptr<Channel> channel, Backend& backend, Queue queue, Operation o)
    : channel_(std::move(channel)),
      backend_(backend),
      queue_(queue),
      label_(o.label),
      own_dst_(o.own_dst),
      own_src_(o.own_src),
      own_how_(o.own_how),
      two_(o.between != Between::all),
      turns_(turns_of(channel_.get(), o)),
      turn_(turns_ ? turns_->called++ : 0),
      route_(route_of(channel_.get(), backend, queue, o, tag_of(o, turn_))),
      out_{route_, staging_out(route_, o), std::move(o.messages.out)},
      in_{route_, staging_in(route_, o), std::move(o.messages.in), o.arriving},
      whole_{route_, o.whole},
      start_(backend.record(queue)) {
  if (Trace::on()) issued_ = Trace::now();
}

bool Job::begin() {
  // Between two devices the order of calls is the order on the stream, and nothing is added.
  const bool in_order = route_.device && two_;
  if (turns_ && turns_->finished != turn_ && !in_order) return false;
  if (!route_.device && !backend_.done(start_)) return false;
  // In its turn, as what arrives: an earlier operation may still add to the same memory.
  if (own_dst_) backend_.copy(queue_, own_dst_, own_src_, own_how_);
  return true;
}

// Between GPUs in groups, which hold the same messages on both sides: one after the other.
bool Job::post() {
  if (!route_.device) return static_cast<int>(out_.post()) | static_cast<int>(in_.post());
  if (whole_.post()) return true;
  if (!out_.idle() || !in_.idle()) return false;
  struct Group {
    DeviceWire& wire;
    bool open = true;
    Group(DeviceWire& w, void* stream) : wire(w) { wire.begin_group(stream); }
    void close() { open = false, wire.end_group(); }
    ~Group() {
      if (open) try {
          wire.end_group();
        } catch (const Error&) {  // the first one is under way
        }
    }
  } group(*route_.device, route_.stream());
  const bool sent = out_.post(), received = in_.post();
  group.close();
  return sent || received;
}

bool Job::step() {
  if (finished_ || !error_.empty()) return false;
  try {
    if (channel_ && !channel_->broken.empty())
      fail("not possible after an earlier failure ({})", channel_->broken);
    if (!begun_) begun_ = begin();
    if (!begun_) return false;
    bool moved = post();
    for (const bool landed : {out_.land(), in_.land(), whole_.land()}) moved = moved || landed;
    finished_ = out_.finished() && in_.finished() && whole_.finished();
    if (finished_ && turns_) ++turns_->finished;
    if (finished_) trace();
    return moved || finished_;
  } catch (const std::exception& e) {
    error_ = fmt::format("{}: {}", name(), e.what());
    if (channel_ && channel_->broken.empty()) channel_->broken = error_;
    return false;
  }
}

void Job::trace() const {
  if (!issued_ || !Trace::on() || !name_.empty()) return;
  Trace::add({queue_, std::string(name_of(label_.doing)), std::string(label_.unit),
              label_.microbatch, *issued_, Trace::now()});
}

Event Job::release() {
  const Event last = backend_.record(queue_);
  out_.release(last);
  in_.release(last);
  whole_.release(last);
  for (const auto& t : kept_) t.used(last);
  kept_.clear();
  return last;
}

std::string Job::state() const {
  if (!channel_) return "its queue is not done with earlier work";
  const auto& t = *channel_->transport;
  auto text = fmt::format("rank {} of {} ", t.rank(), t.size());
  if (!begun_) return text + "has not begun it, earlier work is not finished";
  const auto waits = [&](const char* what, const auto& lane) {
    if (lane.finished()) return;
    const auto& m = lane.messages()[lane.done()];
    text += fmt::format("{} rank {} (message {} of {}), ", what, m.peer, lane.done() + 1,
                        lane.messages().size());
  };
  waits("receives from", in_);
  waits("sends to", out_);
  return text.substr(0, text.size() - 2);
}

}  // namespace trireme
