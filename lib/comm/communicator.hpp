#pragma once
// Ranks of a job, as MPI's communicators. The words of lib/comm:
//   communicator  ranks that call the same collectives in the same order; copies share it
//   operation     a collective on Views, a send or a receive; in flight until it is waited for
//   slice         one of size() equal ones of a View: rank r's is the r-th
//   message       what one rank sends another at a time: at most a chunk of a View's elements, in
//                 the wire type, through staging where the transport cannot access the memory
//   transport     what carries messages: between host memories (MPI), between devices (NCCL), or
//                 nowhere (pretended)
//   progress      made within calls alone
//
// A default-constructed Communicator is rank 0 of 1 and makes no MPI call, so one code path serves
// one rank and many; a pretended one allocates, accesses memory and counts bytes as a real one, but
// sends nothing. A wait polls and yields, so that more ranks than cores are usable. One thread at a
// time: the main one, or beside it the one that speaks for slow work (agree.hpp). MPI's errors
// become Errors with its text.
//
// Operations on Views are asynchronous and collective (send and receive: between two ranks). They
// start when earlier work on `queue` is done; the caller makes that queue wait for events of others
// and keeps the Views' blocks until wait. Views are dense. Memory that the host cannot access
// (Backend::host_readable) goes through pinned staging, or from device to device once the
// communicator is connected. Collectives of one communicator run one after the other, so sums into
// the same memory have a fixed order.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/engine/roll_call.hpp"
#include "lib/comm/engine/settings.hpp"
#include "lib/comm/pending.hpp"
#include "lib/comm/transport/device_transport.hpp"
#include "lib/comm/transport/transport.hpp"

namespace trireme {

using CommSettings = engine::Settings;
namespace engine {
struct Call;
struct Context;
class Observer;
class Progress;
}  // namespace engine
class Communicator;
using engine::Process;

// A number in flight to be compared with those of all ranks. The communicator outlives it.
class Maximum {
 public:
  Maximum(Maximum&&) noexcept = default;
  Maximum& operator=(Maximum&&) = delete;
  ~Maximum();
  double wait();

 private:
  friend class Communicator;
  explicit Maximum(double x) : value_(std::make_unique<double>(x)) {}
  std::unique_ptr<double> value_;               // MPI may write to it until the request is complete
  const Communicator* communicator_ = nullptr;  // null: complete
  transport::Transport::Request request_{};
};

class Communicator {
 public:
  // One rank, a job of its own.
  Communicator();
  // All ranks of a job: what is split off shares its progress and settings.
  explicit Communicator(std::unique_ptr<transport::HostTransport>, const CommSettings& = {});
  // Rank `rank` of a job of `size` ranks that does not run. Error when there is no such rank.
  static Communicator pretend(int rank, int size, const CommSettings& = {});

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Collective: the ranks with the same color (>= 0), ordered by key, then by rank; with own
  // sequence numbers and counters. A pretended communicator cannot know the others' colors: Error.
  Communicator split(int color, int key) const;
  // Collective: the same ranks, with own sequence numbers and counters. Cheaper than a split, which
  // all ranks of this one take part in.
  Communicator duplicate() const;
  // Rank `rank` of a pretended communicator of the same job.
  Communicator pretend_split(int rank, int size) const;
  // Collective: the ranks that share memory with this one.
  Communicator node() const;
  // Collective, once, before any operation on Views: from now on they are sent between devices,
  // enqueued on one stream, so all operations must be on one queue. Communicators split off this
  // one are not connected.
  void connect(const transport::OpenDevice&) const;
  bool connected() const;
  // Collective, once, of all ranks of the job: a wait that takes too long then ends with the roll
  // call of the job's ranks, on rank 0. Not for pretended ones.
  void take_roll() const;
  // Where the ranks of the job run, by rank; elsewhere than on rank 0 where that runs. Empty before
  // take_roll().
  std::span<const Process> processes() const;

  // Host memory, blocking, small.
  void broadcast(std::string&, int root = 0) const;
  void all_reduce(std::span<double>) const;  // sum; the same bits on every rank
  void all_reduce_max(std::span<double>) const;
  std::vector<std::string> all_gather(const std::string&) const;  // by rank
  // A maximum that is started now, and waited for when it is read; its label is not compared.
  Maximum start_max(double) const;

  // dst = the ranks' slices one after the other; src may be dst's own slice.
  [[nodiscard]] Pending all_gather(Backend&, Queue, View dst, ConstView src, const Label&) const;
  // dst (+)= sum over ranks of slice `rank()` of their src; own slice first, then rank+1, ...
  // dst may be src's own slice when it is overwritten. Between devices the transport chooses the
  // order, unless contributions are rounded. `wire`: the type that is sent: src's, or bf16 for an
  // f32 src, where each contribution but the own is rounded once and added in f32.
  [[nodiscard]] Pending reduce_scatter(Backend&, Queue, View dst, ConstView src, Accumulate,
                                       DType wire, const Label&) const;
  // All-to-all: dst[r] = rank r's src[rank()], of the same type and number of elements. Entries may
  // be absent (nothing is sent); the own entry is ignored.
  [[nodiscard]] Pending exchange(Backend&, Queue, std::span<const View> dst,
                                 std::span<const ConstView> src, const Label&) const;
  // A send matches the receive with the same microbatch, several of one microbatch in order of the
  // calls. Both may be posted in any order; between devices, receives from a rank come in the order
  // of its sends.
  [[nodiscard]] Pending send(Backend&, Queue, ConstView, int to, const Label&) const;
  [[nodiscard]] Pending receive(Backend&, Queue, View, int from, const Label&) const;

  // Payload in bytes that left this rank through operations on Views of this communicator.
  std::int64_t bytes_sent() const;

  // The following apply to all communicators of the job. Error when chunks are too long.
  void configure(const CommSettings&) const;
  const CommSettings& settings() const;
  // Advances what is in flight: cheap, called between ops.
  void progress() const;
  // Until an event is done. Throws Error with `what` after CommSettings::hang_timeout.
  void wait(Backend&, Event, const std::string& what) const;
  // Waits for all operations between devices, so that a following download waits for computing
  // alone. Throws Error naming an operation that failed or is not done within
  // CommSettings::hang_timeout. Does nothing for host memory.
  void synchronize() const;
  // Labels of operations whose Pending was dropped in flight. drain() completes these, ordered
  // before later work on compute, and frees their memory, or throws the Errors of those that
  // failed. For use after an error that all ranks share, while the backends still live.
  std::vector<std::string> abandoned() const;
  void drain() const;
  // From now on notifies `o` of what this rank asks of the job's communicators, as long as it
  // lives; null: nobody.
  void set_observer(engine::Observer* o) const;
  // Equal for copies of a communicator alone.
  const engine::Context* id() const { return context_.get(); }

 private:
  friend class Maximum;
  Communicator(std::shared_ptr<engine::Progress>, std::unique_ptr<transport::HostTransport>);
  Pending begin(Backend&, Queue, engine::Call) const;
  std::int64_t longest_message() const;
  void touch(Backend&, Queue, const ConstView& read, const View& written) const;
  // Before every collective; `what` is the same on every rank, or the ranks are out of step.
  void require_same(const std::function<std::string()>& what) const;
  // Until an operation on host memory is complete.
  void finish(transport::Transport::Request, const std::function<std::string()>& what) const;
  void reduce(std::span<double>, transport::Reduction) const;
  std::vector<std::string> gather_texts(const std::string&) const;

  std::shared_ptr<engine::Context> context_;
  int rank_ = 0, size_ = 1;
};

}  // namespace trireme
