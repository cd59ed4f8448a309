#include "lib/comm/communicator.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/deadline.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/comm/engine/progress.hpp"
#include "lib/comm/transport/pretended_transport.hpp"

namespace trireme {

using engine::Call, engine::Context, engine::Operation, engine::Pattern, engine::Progress;
using transport::HostTransport, transport::Transport;

Communicator::Communicator() : Communicator(std::make_shared<Progress>(), nullptr) {}

Communicator::Communicator(std::unique_ptr<HostTransport> host, const CommSettings& s)
    : Communicator(std::make_shared<Progress>(s), std::move(host)) {}

Communicator::Communicator(std::shared_ptr<Progress> progress, std::unique_ptr<HostTransport> host)
    : context_(std::make_shared<Context>()) {
  if (host) rank_ = host->rank(), size_ = host->size();
  context_->progress = std::move(progress);
  context_->host = std::move(host);
}

Communicator Communicator::pretend(int rank, int size, const CommSettings& s) {
  return Communicator(transport::pretended_host(rank, size), s);
}

Communicator Communicator::split(int color, int key) const {
  expect(color >= 0, "every rank gets a communicator");
  auto& host = context_->host;
  const Deadline limit("splitting a communicator", host ? settings().hang_timeout : 0);
  return {context_->progress, host ? host->split(color, key) : nullptr};
}

Communicator Communicator::duplicate() const {
  auto& host = context_->host;
  const Deadline limit("duplicating a communicator", host ? settings().hang_timeout : 0);
  return {context_->progress, host ? host->duplicate() : nullptr};
}

Communicator Communicator::pretend_split(int rank, int size) const {
  return {context_->progress, transport::pretended_host(rank, size)};
}

Communicator Communicator::node() const {
  auto& host = context_->host;
  const Deadline limit("splitting a communicator", host ? settings().hang_timeout : 0);
  return {context_->progress, host ? host->node() : nullptr};
}

bool Communicator::connected() const {
  return context_->device != nullptr;
}

void Communicator::connect(const transport::OpenDevice& open) const {
  if (size_ == 1) return;
  auto& c = *context_;
  const Deadline limit("connecting devices", settings().hang_timeout);
  expect(!c.device && c.sequences.empty(), "connected once, before anything moves");
  c.device = open({*c.host, [this](Transport::Request r, const std::string& what) {
                     finish(r, [&] { return what; });
                   }});
}

void Communicator::take_roll() const {
  if (size_ == 1) return;
  auto& c = *context_;
  const Deadline limit("the first meeting of all ranks", settings().hang_timeout);
  c.progress->take_roll(std::make_unique<engine::RollCall>(c.host->split(0, rank_)));
}

std::span<const Process> Communicator::processes() const {
  const auto* roll_call = context_->progress->roll_call();
  return roll_call ? roll_call->processes() : std::span<const Process>();
}

std::int64_t Communicator::bytes_sent() const {
  return context_->bytes_sent;
}

void Communicator::configure(const CommSettings& s) const {
  context_->progress->configure(s);
}

const CommSettings& Communicator::settings() const {
  return context_->progress->settings();
}

void Communicator::progress() const {
  if (auto* observer = context_->progress->observer()) observer->poll();
  context_->progress->poll();
}

void Communicator::wait(Backend& b, Event e, const std::string& what) const {
  const TaskScope task(Task::device);
  context_->progress->wait_until([&] { return b.done(e); },
                                 [&]() -> engine::Wait {
                                   return {what, "on this rank"};
                                 });
}

void Communicator::synchronize() const {
  const TaskScope task(Task::device);
  context_->progress->synchronize();
}

std::vector<std::string> Communicator::abandoned() const {
  return context_->progress->abandoned();
}

void Communicator::drain() const {
  context_->progress->drain();
}

void Communicator::set_companion(std::function<void()> work) const {
  context_->progress->set_companion(std::move(work));
}

void Communicator::set_observer(engine::Observer* o) const {
  context_->progress->set_observer(o);
}

// Returns the elements of a dense view as a view with one dim.
template <class V>
static V flat(const V& v) {
  expect(v.dense(), "a communicator moves dense views");
  return v.reshaped({v.count()});
}

// Returns the number of bytes that this rank sends.
static std::int64_t payload(const Call& c) {
  std::int64_t bytes = 0;
  for (const auto& m : c.messages.out)
    bytes += m.view.count() * static_cast<std::int64_t>(bytes_of(c.wire));
  return bytes;
}

Pending Communicator::begin(Backend& backend, Queue queue, Call c) const {
  context_->bytes_sent += payload(c);
  auto* observer = context_->progress->observer();
  if (observer) observer->call(*context_, queue, c);
  if (c.native) c.messages = {};
  auto operation = std::make_unique<Operation>(context_, backend, queue, std::move(c));
  const auto& called = *operation;
  Pending pending(std::move(operation));
  if (observer) observer->called(called);
  return pending;
}

// Returns the maximum number of elements in a message without staging. Between devices, there is no
// limit, because NCCL divides messages among its channels itself.
std::int64_t Communicator::longest_message() const {
  return context_->device ? std::numeric_limits<std::int64_t>::max() : settings().chunk;
}

// Reports accesses of the queue to the operands, if the transport accesses the operands directly.
void Communicator::touch(Backend& b, Queue queue, const ConstView& read,
                         const View& written) const {
  if (b.host_readable() || context_->device) b.touched(queue, read, written);
}

Pending Communicator::all_gather(Backend& b, Queue queue, View dst, ConstView src,
                                 const Label& label) const {
  expect(dst.count() == size_ * src.count() && dst.dtype == src.dtype,
         "a gather's dst holds every rank's slice");
  require_same([&] {
    return fmt::format("{} ({} {} a rank)", to_string(label), src.count(), name_of(src.dtype));
  });
  dst = flat(dst), src = flat(src);
  View own = engine::slice_of(dst, rank_, size_);
  if (own.data == src.data) own = {};
  auto messages = engine::gather_messages(rank_, size_, dst, src, settings().chunk);
  if (!messages.out.empty()) touch(b, queue, src, dst);
  engine::NativeCollective native;
  if (context_->device && !messages.out.empty()) {
    native = {.slice = src, .gathered = dst};
    own = {};  // the transport copies this slice, too
  }
  return begin(b, queue,
               {.label = label,
                .own_dst = own,
                .own_src = src,
                .messages = std::move(messages),
                .native = native,
                .type = src.dtype,
                .wire = src.dtype});
}

Pending Communicator::reduce_scatter(Backend& b, Queue queue, View dst, ConstView src,
                                     Accumulate how, DType wire, const Label& label) const {
  expect(src.count() == size_ * dst.count() && dst.dtype == src.dtype,
         "a scatter's src holds every rank's slice");
  require(wire == src.dtype || (wire == DType::bf16 && src.dtype == DType::f32),
          "{}: {} cannot be sent as {}; only f32 can be sent as another type, bf16",
          to_string(label), name_of(src.dtype), name_of(wire));
  require_same([&] {
    return fmt::format("{} ({} {} as {} a rank)", to_string(label), dst.count(), name_of(src.dtype),
                       name_of(wire));
  });
  dst = flat(dst), src = flat(src);
  const ConstView own = engine::slice_of(src, rank_, size_);
  expect(own.data != dst.data || how == Accumulate::overwrite, "nothing is added to itself");
  auto messages = engine::scatter_messages(rank_, size_, dst, src, settings().chunk);
  if (!messages.out.empty() && wire == src.dtype) touch(b, queue, src, {});
  // With bf16, each contribution must be rounded exactly once. The transport's own reduce-scatter
  // could round partial sums, so it is used only for f32.
  if (context_->device && wire == DType::f32 && !messages.out.empty()) {
    touch(b, queue, {}, how == Accumulate::overwrite ? dst : View());
    return begin(b, queue,
                 {.label = label,
                  .messages = std::move(messages),
                  .native = {.summands = src, .sum = dst, .how = how},
                  .type = src.dtype,
                  .wire = wire});
  }
  return begin(b, queue,
               {.label = label,
                .own_dst = own.data == dst.data ? View() : dst,
                .own_src = own,
                .own_how = how,
                .messages = std::move(messages),
                .type = src.dtype,
                .wire = wire,
                .arriving = Accumulate::add});
}

Pending Communicator::exchange(Backend& b, Queue queue, std::span<const View> dst,
                               std::span<const ConstView> src, const Label& label,
                               std::optional<ExchangeLimit> most) const {
  const auto ranks = static_cast<std::size_t>(size_);
  expect(dst.size() == ranks && src.size() == ranks, "an exchange has a view for each rank");
  require_same([&] { return to_string(label); });
  std::vector<View> to(ranks);
  std::vector<ConstView> from(ranks);
  DType type = most ? most->type : DType::f32;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == rank_) continue;
    if (src[r]) from[r] = flat(src[r]), type = src[r].dtype;
    if (dst[r]) to[r] = flat(dst[r]), type = dst[r].dtype;
    for (const auto& v : {from[r], ConstView(to[r])})
      expect(!most || !v || (v.count() <= most->elements && v.dtype == most->type),
             "no part of an exchange exceeds its limit");
    touch(b, queue, from[r], to[r]);
  }
  for (std::size_t r = 0; r < ranks; ++r)
    expect((!from[r] || from[r].dtype == type) && (!to[r] || to[r].dtype == type),
           "an exchange moves one type");
  return begin(b, queue,
               {.label = label,
                .messages = engine::exchange_messages(rank_, to, from, longest_message()),
                .most = most && size_ > 1 ? std::min(most->elements, longest_message()) : 0,
                .type = type,
                .wire = type});
}

Pending Communicator::send(Backend& b, Queue queue, ConstView src, int to,
                           const Label& label) const {
  expect(to >= 0 && to < size_ && to != rank_, "a message goes to another rank");
  src = flat(src);
  touch(b, queue, src, {});
  return begin(b, queue,
               {.label = label,
                .messages = engine::send_messages(to, src, longest_message()),
                .type = src.dtype,
                .wire = src.dtype,
                .pattern = Pattern::send,
                .peer = to});
}

Pending Communicator::receive(Backend& b, Queue queue, View dst, int from,
                              const Label& label) const {
  expect(from >= 0 && from < size_ && from != rank_, "a message comes from another rank");
  dst = flat(dst);
  touch(b, queue, {}, dst);
  return begin(b, queue,
               {.label = label,
                .messages = engine::receive_messages(from, dst, longest_message()),
                .type = dst.dtype,
                .wire = dst.dtype,
                .pattern = Pattern::receive,
                .peer = from});
}

}  // namespace trireme
