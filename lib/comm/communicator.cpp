#include "lib/comm/communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/comm/in_flight.hpp"
#include "lib/comm/pretend_transport.hpp"

namespace trireme {

CommSettings& comm_settings() {
  static CommSettings settings;
  return settings;
}

void Communicator::configure(const CommSettings& s) {
  // A message's bytes are an int; 8 bytes an element at most.
  require(s.piece >= 1 && s.piece <= 1 << 27, "{} elements of a message: use 1 to {}", s.piece,
          1 << 27);
  comm_settings() = s;
}

void Communicator::progress() {
  InFlight::here().poke();
}

std::vector<std::string> Communicator::left_over() {
  return InFlight::here().left_over();
}

void Communicator::drain() {
  InFlight::here().drain();
}

Communicator::Communicator(std::unique_ptr<Transport> transport)
    : rank_(transport->rank()), size_(transport->size()) {
  channel_ = std::make_shared<Channel>();
  channel_->transport = std::move(transport);
}

Communicator Communicator::pretend(int rank, int size) {
  return Communicator(pretend_transport(rank, size));
}

Communicator Communicator::split(int color, int key) const {
  expect(color >= 0, "every rank is in a part");
  if (!channel_) return {};
  return Communicator(channel_->transport->split(color, key));
}

Communicator Communicator::node() const {
  if (!channel_) return {};
  return Communicator(channel_->transport->node());
}

void Communicator::connect(const OpenDeviceWire& open) const {
  if (!channel_ || size_ == 1) return;
  expect(!channel_->device && channel_->turns.empty(), "connected once, before anything moves");
  channel_->device = open(*channel_->transport);
}

void Communicator::settle() {
  InFlight::here().settle();
}

std::int64_t Communicator::bytes_sent() const {
  return channel_ ? channel_->bytes_sent : 0;
}

// The same dense elements in one dim.
template <class V>
static V flat(const V& v) {
  expect(v.dense(), "a communicator moves dense views");
  return v.reshaped({v.count()});
}

// What leaves this rank, whichever way.
static std::int64_t payload(const Operation& o) {
  std::int64_t bytes = 0;
  for (const auto& m : o.messages.out)
    bytes += m.view.count() * static_cast<std::int64_t>(bytes_of(o.wire));
  return bytes;
}

Pending Communicator::begin(Backend& backend, Queue queue, Operation o) const {
  if (channel_) channel_->bytes_sent += payload(o);
  if (o.whole) o.messages = {};
  return Pending(std::make_unique<Job>(channel_, backend, queue, std::move(o)));
}

// Where the wire reads and writes the operands themselves, that is an access like a kernel's.
void Communicator::touch(Backend& b, Queue queue, const ConstView& read,
                         const View& written) const {
  if (b.host_readable() || (channel_ && channel_->device)) b.touched(queue, read, written);
}

Pending Communicator::all_gather(Backend& b, Queue queue, View dst, ConstView src,
                                 const Label& label) const {
  expect(dst.count() == size_ * src.count() && dst.dtype == src.dtype,
         "a gather's dst holds every rank's part");
  agree([&] {
    return fmt::format("{} ({} {} a rank)", to_string(label), src.count(), name_of(src.dtype));
  });
  dst = flat(dst), src = flat(src);
  View own = part_of(dst, rank_, size_);
  if (own.data == src.data) own = {};
  auto messages = gather_messages(rank_, size_, dst, src, comm_settings().piece);
  if (!messages.out.empty()) touch(b, queue, src, dst);
  Whole whole;
  if (channel_ && channel_->device && !messages.out.empty()) whole.gathered = dst;
  return begin(b, queue,
               {.label = label,
                .own_dst = own,
                .own_src = src,
                .messages = std::move(messages),
                .whole = whole,
                .type = src.dtype,
                .wire = src.dtype});
}

Pending Communicator::reduce_scatter(Backend& b, Queue queue, View dst, ConstView src,
                                     Accumulate how, DType wire, const Label& label) const {
  expect(src.count() == size_ * dst.count() && dst.dtype == src.dtype,
         "a scatter's src holds every rank's part");
  require(wire == src.dtype || (wire == DType::bf16 && src.dtype == DType::f32),
          "{}: {} cannot travel as {}, only as itself, or f32 as bf16", to_string(label),
          name_of(src.dtype), name_of(wire));
  agree([&] {
    return fmt::format("{} ({} {} as {} a rank)", to_string(label), dst.count(), name_of(src.dtype),
                       name_of(wire));
  });
  dst = flat(dst), src = flat(src);
  const ConstView own = part_of(src, rank_, size_);
  expect(own.data != dst.data || how == Accumulate::overwrite, "nothing is added to itself");
  auto messages = scatter_messages(rank_, size_, dst, src, comm_settings().piece);
  if (!messages.out.empty() && wire == src.dtype) touch(b, queue, src, {});
  // What travels rounded is rounded once a contribution, so it is not summed on the way.
  if (channel_ && channel_->device && wire == DType::f32 && !messages.out.empty()) {
    touch(b, queue, {}, how == Accumulate::overwrite ? dst : View());
    return begin(b, queue,
                 {.label = label,
                  .messages = std::move(messages),
                  .whole = {.summands = src, .sum = dst, .how = how},
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
                               std::span<const ConstView> src, const Label& label) const {
  const auto ranks = static_cast<std::size_t>(size_);
  expect(dst.size() == ranks && src.size() == ranks, "an exchange has a view for each rank");
  agree([&] { return to_string(label); });
  std::vector<View> to(ranks);
  std::vector<ConstView> from(ranks);
  DType type = DType::f32;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == rank_) continue;
    if (src[r]) from[r] = flat(src[r]), type = src[r].dtype;
    if (dst[r]) to[r] = flat(dst[r]), type = dst[r].dtype;
    touch(b, queue, from[r], to[r]);
  }
  for (std::size_t r = 0; r < ranks; ++r)
    expect((!from[r] || from[r].dtype == type) && (!to[r] || to[r].dtype == type),
           "an exchange moves one type");
  return begin(b, queue,
               {.label = label,
                .messages = exchange_messages(rank_, to, from, comm_settings().piece),
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
                .messages = send_messages(to, src, comm_settings().piece),
                .type = src.dtype,
                .wire = src.dtype,
                .between = Between::sender,
                .peer = to});
}

Pending Communicator::receive(Backend& b, Queue queue, View dst, int from,
                              const Label& label) const {
  expect(from >= 0 && from < size_ && from != rank_, "a message comes from another rank");
  dst = flat(dst);
  touch(b, queue, {}, dst);
  return begin(b, queue,
               {.label = label,
                .messages = receive_messages(from, dst, comm_settings().piece),
                .type = dst.dtype,
                .wire = dst.dtype,
                .between = Between::receiver,
                .peer = from});
}

// Host memory. `what` is called for messages alone.
template <class What>
static void finish(Transport& t, Transport::Request r, const What& what) {
  const TraceScope span(Trace::on() ? "wait for " + what() : "");
  const auto test = [&] {
    try {
      return t.test(r);
    } catch (const Error& e) {
      fail("{}: {}", what(), e.what());
    }
  };
  InFlight::here().wait_until(test, what);
}

void Communicator::broadcast(std::string& text, int root) const {
  if (!channel_) return;
  const auto what = [&] { return fmt::format("broadcast from rank {}", root); };
  agree(what);
  auto& t = *channel_->transport;
  auto length = static_cast<std::int64_t>(text.size());
  finish(t, t.broadcast(root, std::as_writable_bytes(std::span(&length, 1))), what);
  text.resize(static_cast<std::size_t>(length));
  finish(t, t.broadcast(root, std::as_writable_bytes(std::span(text))), what);
}

static void reduce(Transport& t, Reduction how, std::span<double> x) {
  finish(t, t.all_reduce(how, x),
         [&] { return fmt::format("all-reduce of {} numbers", x.size()); });
}

void Communicator::all_reduce(std::span<double> x) const {
  if (!channel_) return;
  agree([&] { return fmt::format("sum of {} numbers", x.size()); });
  reduce(*channel_->transport, Reduction::sum, x);
}

void Communicator::all_reduce_max(std::span<double> x) const {
  if (!channel_) return;
  agree([&] { return fmt::format("maximum of {} numbers", x.size()); });
  reduce(*channel_->transport, Reduction::max, x);
}

static std::vector<std::string> gather_texts(Transport& t, const std::string& mine) {
  const auto what = [] { return std::string("all-gather of texts"); };
  const auto ranks = static_cast<std::size_t>(t.size());
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  finish(
      t,
      t.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)),
                   std::vector<int>(ranks, sizeof length)),
      what);
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  require(sum <= 1 << 30, "texts of {} bytes together are too long to gather", sum);
  std::string all(static_cast<std::size_t>(sum), '\0');
  finish(t,
         t.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                      std::vector<int>(lengths.begin(), lengths.end())),
         what);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const auto n : lengths) {
    texts.push_back(all.substr(at, static_cast<std::size_t>(n)));
    at += static_cast<std::size_t>(n);
  }
  return texts;
}

std::vector<std::string> Communicator::all_gather(const std::string& mine) const {
  if (!channel_) return {mine};
  agree([] { return std::string("all-gather of texts"); });
  return gather_texts(*channel_->transport, mine);
}

void Communicator::agree(const std::function<std::string()>& what) const {
  if (!channel_) return;
  const auto number = ++channel_->collectives;
  if (!comm_settings().check_labels || size_ == 1) return;
  const auto all =
      gather_texts(*channel_->transport, fmt::format("operation {}: {}", number, what()));
  const auto other = std::ranges::find_if(all, [&](const auto& text) { return text != all[0]; });
  require(other == all.end(),
          "the {} ranks of a communicator call different operations: rank 0 {}; rank {} {}", size_,
          all[0], other - all.begin(), other == all.end() ? all[0] : *other);
}

}  // namespace trireme
