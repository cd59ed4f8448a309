#include "lib/train/copy_exchange.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {
namespace {

constexpr int header_tag = 1, reply_tag = 2, ranges_tag = 3, data_tag = 4;
// What a receiver replies.
constexpr std::int64_t no_memory = 0, send_all = 1, send_changes = 2;

template <class T>
std::span<std::byte> raw_memory(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> raw_memory(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

ByteMessage::Parts parts_of(std::span<std::byte> bytes, std::span<const ByteRange> ranges) {
  ByteMessage::Parts parts;
  for (const auto& r : ranges) {
    expect(0 <= r.begin && r.begin <= r.end && r.end <= std::ssize(bytes), "a range of the file");
    parts.push_back(bytes.subspan(static_cast<std::size_t>(r.begin),
                                  static_cast<std::size_t>(r.end - r.begin)));
  }
  return parts;
}

}  // namespace

// A shard on its way between two ranks. The message in flight uses the memory of the other members.
template <class S>
struct CopyExchange::Transfer {
  using Stage = S;

  int peer;
  Stage stage;
  Header header{};
  std::int64_t reply = no_memory;
  std::unique_ptr<MappedFile> file{};  // once it is written or reserved
  std::vector<ByteRange> changed{};
  std::unique_ptr<ByteMessage> message{};

  void post(ByteMessage::Way way, const Communicator& channel, int tag, ByteMessage::Parts parts,
            Stage next) {
    message = std::make_unique<ByteMessage>(channel, way, peer, tag, std::move(parts));
    stage = next;
  }
};

enum class SendStage : std::uint8_t { writing, header, reply, ranges, data, done };
enum class ReceiveStage : std::uint8_t { header, reserving, reply, ranges, data, checking, done };

// This rank's shard, on its way into the memory of another node.
struct CopyExchange::Outgoing : Transfer<SendStage> {
  explicit Outgoing(int to) : Transfer{to, Stage::done} {}
};

// A shard of another rank, on its way into the memory of this node.
struct CopyExchange::Incoming : Transfer<ReceiveStage> {
  explicit Incoming(int from) : Transfer{from, Stage::header} {}

  std::string failure;
  bool overwrites = false;  // an older file of the same size
  BackgroundWork work;

  // Runs `what` on a thread. A failure becomes the failure of this shard.
  void start(std::function<void()> what) {
    try {
      work.start(std::move(what));
    } catch (const Error& e) {
      failure = e.what();
    }
  }
  // Returns true if the thread has ended.
  bool ended() {
    if (work.running()) return false;
    try {
      work.join();
    } catch (const std::exception& e) {
      failure = e.what();
    }
    return true;
  }
};

CopyExchange::CopyExchange(Communicator channel, CopyPeers peers)
    : channel_(std::move(channel)),
      peers_(std::move(peers)),
      outgoing_(std::make_unique<Outgoing>(peers_.receiver)) {}

CopyExchange::~CopyExchange() {
  // MPI may still access the memory of messages in flight.
  if (outgoing_->stage != Outgoing::Stage::writing && outgoing_->stage != Outgoing::Stage::done)
    static_cast<void>(outgoing_.release());
  for (auto& i : incoming_)
    if (i->stage != Incoming::Stage::done) static_cast<void>(i.release());
}

void CopyExchange::begin(std::filesystem::path partial, Write write) {
  partial_ = std::move(partial);
  own_.reset();
  not_finite_.clear();
  failure_.clear();
  sent_ = 0;
  outgoing_->stage = Outgoing::Stage::writing;
  try {
    writer_.start([this, write = std::move(write)] {
      auto written = write();
      if (!written) return;
      if (peers_.receiver >= 0) {
        outgoing_->file = std::move(written->file);
        outgoing_->changed = std::move(written->changed);
      }
      own_ = std::move(written->record);
    });
  } catch (const Error& e) {
    failure_ = e.what();
  }
  try {
    incoming_.clear();
    for (const int from : peers_.senders) {
      auto& i = *incoming_.emplace_back(std::make_unique<Incoming>(from));
      i.post(ByteMessage::Way::receive, channel_, header_tag, {raw_memory(i.header)},
             Incoming::Stage::header);
    }
  } catch (const Error& e) {
    broken_ = e.what();
  }
}

void CopyExchange::poll() noexcept {
  if (!broken_.empty()) return;
  try {
    advance_outgoing();
    for (const auto& i : incoming_) advance(*i);
  } catch (const std::exception& e) {
    broken_ = e.what();
  }
}

bool CopyExchange::working() const {
  if (!broken_.empty()) fail("the exchange of memory copies failed: {}", broken_);
  return outgoing_->stage != Outgoing::Stage::done ||
         std::ranges::any_of(incoming_,
                             [](const auto& i) { return i->stage != Incoming::Stage::done; });
}

std::string CopyExchange::failure() const {
  if (!failure_.empty()) return failure_;
  for (const auto& i : incoming_)
    if (!i->failure.empty()) return i->failure;
  return {};
}

std::string CopyExchange::state() const {
  constexpr std::array out{"writes its shard", "sends the size of its shard",
                           "waits for memory", "sends the ranges that changed",
                           "sends its shard",  "has sent its shard"};
  constexpr std::array in{"waits for the size of the shard",
                          "reserves memory for the shard",
                          "announces memory for the shard",
                          "waits for the ranges that changed",
                          "receives the shard",
                          "checks the shard",
                          "has the shard"};
  std::string text = out[static_cast<std::size_t>(outgoing_->stage)];
  if (outgoing_->peer >= 0) text += fmt::format(" (to rank {})", outgoing_->peer);
  for (const auto& i : incoming_)
    text += fmt::format(", {} of rank {}", in[static_cast<std::size_t>(i->stage)], i->peer);
  return text;
}

// Fills the header. If writing failed, the header reports it.
void CopyExchange::end_writing() {
  try {
    writer_.join();
  } catch (const NotFinite& e) {
    not_finite_ = e.what();
  } catch (const std::exception& e) {
    failure_ = e.what();
  }
  const bool failed = !not_finite_.empty() || !failure_.empty();
  outgoing_->header = {failed ? -1 : 0, 0, 0, 0};
  if (!failed && own_)
    outgoing_->header = {own_->size, std::bit_cast<std::int64_t>(own_->hash.high),
                         std::bit_cast<std::int64_t>(own_->hash.low),
                         std::ssize(outgoing_->changed)};
}

void CopyExchange::advance_outgoing() {
  using Stage = Outgoing::Stage;
  using Way = ByteMessage::Way;
  auto& o = *outgoing_;
  if (o.stage == Stage::done) return;
  if (o.stage == Stage::writing) {
    if (writer_.running()) return;
    end_writing();
    if (o.peer >= 0)
      return o.post(Way::send, channel_, header_tag, {raw_memory(o.header)}, Stage::header);
  } else if (!o.message->complete()) {
    return;
  }
  if (o.stage == Stage::header && o.header[0] > 0)
    return o.post(Way::receive, channel_, reply_tag, {raw_memory(o.reply)}, Stage::reply);
  if (o.stage == Stage::reply && o.reply == send_changes)
    return o.post(Way::send, channel_, ranges_tag, {raw_memory(o.changed)}, Stage::ranges);
  if (o.stage == Stage::ranges || (o.stage == Stage::reply && o.reply == send_all)) {
    if (o.stage == Stage::reply) o.changed = {{0, o.header[0]}};
    for (const auto& r : o.changed) sent_ += r.end - r.begin;
    return o.post(Way::send, channel_, data_tag, parts_of(o.file->bytes(), o.changed), Stage::data);
  }
  o.message.reset();
  o.file.reset();
  o.stage = Stage::done;
}

void CopyExchange::advance(Incoming& i) const {
  using Stage = Incoming::Stage;
  using Way = ByteMessage::Way;
  const auto path = [&] { return partial_ / shard_name(i.peer); };
  switch (i.stage) {
    case Stage::header:
      if (!i.message->complete()) return;
      i.stage = Stage::done;
      if (i.header[0] <= 0) return;
      i.stage = Stage::reserving;  // on a thread, because the system clears the memory
      return i.start([&i, path = path()] {
        std::error_code absent;
        i.overwrites =
            std::filesystem::file_size(path, absent) == static_cast<std::uintmax_t>(i.header[0]);
        i.file = std::make_unique<MappedFile>(reserve_file(path, i.header[0]));
      });
    case Stage::reserving:
      if (!i.ended()) return;
      i.reply = !i.failure.empty() ? no_memory : i.overwrites ? send_changes : send_all;
      return i.post(Way::send, channel_, reply_tag, {raw_memory(i.reply)}, Stage::reply);
    case Stage::reply:
      if (!i.message->complete()) return;
      if (i.reply == no_memory) {
        i.stage = Stage::done;
        return;
      }
      if (i.reply == send_all)
        return i.post(Way::receive, channel_, data_tag, {i.file->bytes()}, Stage::data);
      i.changed.resize(static_cast<std::size_t>(i.header[3]));
      return i.post(Way::receive, channel_, ranges_tag, {raw_memory(i.changed)}, Stage::ranges);
    case Stage::ranges:
      if (!i.message->complete()) return;
      return i.post(Way::receive, channel_, data_tag, parts_of(i.file->bytes(), i.changed),
                    Stage::data);
    case Stage::data:
      if (!i.message->complete()) return;
      i.stage = Stage::checking;
      return i.start([&i] {
        const Hash128 sent{std::bit_cast<std::uint64_t>(i.header[1]),
                           std::bit_cast<std::uint64_t>(i.header[2])};
        require(hash128(i.file->bytes()) == sent,
                "the shard of rank {} did not arrive as it was sent", i.peer);
        i.file.reset();
      });
    case Stage::checking:
      if (!i.ended()) return;
      i.message.reset();
      i.stage = Stage::done;
      return;
    case Stage::done:
      return;
  }
}

}  // namespace trireme
