#pragma once
// Communicator: a group of ranks that communicate, like an MPI communicator. Terms used in
// lib/comm:
//   operation   a collective on Views, a send or a receive; in flight until it is waited for
//   slice       one of size() equal parts of a View; slice r belongs to rank r
//   message     what one rank sends to another at once: at most one chunk of a View's elements, in
//               the wire type; it is staged in a buffer if the transport cannot access the View
//   transport   what carries messages: MPI between host memories, NCCL between devices, or nothing
//               if the job is pretended
//
// A default-constructed Communicator is rank 0 of 1 and makes no MPI calls, so one code path serves
// one rank and many. A pretended Communicator allocates, accesses memory and counts bytes like a
// real one, but sends nothing; plans use it. Copies of a Communicator are the same communicator.
//
// Operations on Views are asynchronous. All except send and receive are collective: all ranks call
// them in the same order. An operation starts when earlier work on `queue` is done. The caller
// makes `queue` wait for the events of other queues, and keeps the memory alive until
// Pending::wait(). Views must be dense. Memory that the host cannot access (Backend::host_readable)
// is staged in pinned memory, unless the communicator is connected and sends from device to device.
// Collectives on one communicator run one after another, so sums into the same memory have a fixed
// order.
//
// Operations progress only during calls to communicators. A wait polls and yields, so that a job
// can have more ranks than cores. Only one thread may use communicators at a time: the main thread,
// or the thread that reports slow work (agree.hpp) while the main thread does it. MPI errors become
// Errors with MPI's text.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

// Result of Communicator::start_max(): a maximum over all ranks that is being computed. The
// Communicator must outlive this object.
class PendingMaximum {
 public:
  PendingMaximum(PendingMaximum&&) noexcept = default;
  PendingMaximum& operator=(PendingMaximum&&) = delete;
  ~PendingMaximum();
  // Blocks until the maximum is computed, and returns it.
  double wait();

 private:
  friend class Communicator;
  explicit PendingMaximum(double x) : value_(std::make_unique<double>(x)) {}
  std::unique_ptr<double> value_;               // MPI may write to it until the request completes
  const Communicator* communicator_ = nullptr;  // null if the request is complete
  transport::Transport::Request request_{};
};

// Maximum number of elements that any rank sends to another in an exchange, and their type.
struct ExchangeLimit {
  std::int64_t elements;
  DType type;
};

// A group of ranks that communicate. The comment at the top of this file defines the terms.
class Communicator {
 public:
  // Creates a communicator with one rank.
  Communicator();
  // Creates the communicator of all ranks of a job. Communicators that are split off from this one
  // share its progress engine and settings.
  explicit Communicator(std::unique_ptr<transport::HostTransport>, const CommSettings& = {});
  // Returns a pretended communicator: the communicator of rank `rank` in a job of `size` ranks that
  // does not run. It exchanges no data. Throws Error if the rank is out of range.
  static Communicator pretend(int rank, int size, const CommSettings& = {});

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Creates a communicator of the ranks with the same `color` (>= 0), ordered by `key`, then by
  // rank. Collective. The new communicator numbers its operations and counts its bytes separately.
  // Throws Error on a pretended communicator, which does not know the colors of other ranks.
  Communicator split(int color, int key) const;
  // Creates another communicator of the same ranks, which numbers its operations and counts its
  // bytes separately. The call is collective only over these ranks, so it is cheaper than split().
  Communicator duplicate() const;
  // Returns a pretended communicator in the same job, as rank `rank` of `size` ranks. This
  // communicator must be pretended, too.
  Communicator pretend_split(int rank, int size) const;
  // Creates the communicator of the ranks that share memory with this rank. Collective.
  Communicator node() const;
  // Opens a transport between devices, which carries all further operations on Views. The
  // operations are enqueued on one stream, so all of them must use the same queue. Collective. Call
  // connect() once, before any operation on Views. Communicators that are split off from this one
  // are not connected.
  void connect(const transport::OpenDevice&) const;
  bool connected() const;
  // Enables the diagnosis of hangs: if a wait exceeds CommSettings::hang_timeout, the Error on rank
  // 0 lists what each rank waits for. Collective over all ranks of the job. Call it once. Pretended
  // communicators do not support it.
  void take_roll() const;
  // On rank 0, returns the host and process id of each rank of the job. Other ranks get only those
  // of rank 0. The result is empty before take_roll().
  std::span<const Process> processes() const;

  // Small, blocking collectives on host memory.
  void broadcast(std::string&, int root = 0) const;
  // Sums the numbers over ranks, in place. All ranks get the same bits.
  void all_reduce(std::span<double>) const;
  // Takes the maximum of the numbers over ranks, in place.
  void all_reduce_max(std::span<double>) const;
  // Returns the text of each rank, by rank.
  std::vector<std::string> all_gather(const std::string&) const;
  // Starts computing the maximum of a number over ranks, without blocking. check_labels does not
  // apply to this collective, because comparing labels would block.
  PendingMaximum start_max(double) const;

  // All-gathers: writes the ranks' slices one after another to `dst`. `src` may be this rank's
  // slice of `dst`.
  [[nodiscard]] Pending all_gather(Backend&, Queue, View dst, ConstView src, const Label&) const;
  // Reduce-scatters: sums slice rank() of `src` over all ranks, and writes the sum to `dst` or adds
  // it. The sum begins with this rank's slice and then adds those of rank+1, rank+2 and so on. If
  // `dst` is overwritten, it may be this rank's slice of `src`. `wire` is the type in which data is
  // sent: the type of `src`, or bf16 if `src` is f32. With bf16, each slice from another rank is
  // rounded once, and the sum is in f32. Between devices, the transport chooses the order of the
  // sum unless `wire` is bf16.
  [[nodiscard]] Pending reduce_scatter(Backend&, Queue, View dst, ConstView src, Accumulate,
                                       DType wire, const Label&) const;
  // Exchanges data between all pairs of ranks (all-to-all): dst[r] receives src[rank()] of rank r.
  // The two views must have the same type and number of elements. Nothing is sent for an absent
  // entry. The entries for this rank are ignored. With `most`, the size of the staging buffers
  // depends on `most` and not on the entries. Pass it if the numbers of elements follow from data.
  [[nodiscard]] Pending exchange(Backend&, Queue, std::span<const View> dst,
                                 std::span<const ConstView> src, const Label&,
                                 std::optional<ExchangeLimit> most = {}) const;
  // Sends to or receives from one rank. A send matches the receive with the same micro-batch in its
  // label. Several sends with the same micro-batch match receives in the order of the calls. Sends
  // and receives may otherwise be called in any order on host memory. Between devices, a rank must
  // receive from another rank in the order of its sends.
  [[nodiscard]] Pending send(Backend&, Queue, ConstView, int to, const Label&) const;
  [[nodiscard]] Pending receive(Backend&, Queue, View, int from, const Label&) const;

  // Returns the bytes that this rank has sent on this communicator so far in operations on Views.
  std::int64_t bytes_sent() const;

  // Changes the settings of all communicators of the job. Throws Error if the chunk size is too
  // long for one message.
  void configure(const CommSettings&) const;
  const CommSettings& settings() const;
  // Advances operations in flight. The call is cheap. Programs make it between ops.
  void progress() const;
  // Blocks until the event has passed. Throws Error, naming `what`, after
  // CommSettings::hang_timeout.
  void wait(Backend&, Event, const std::string& what) const;
  // Blocks until all operations between devices are done, so that a later wait measures only
  // computation. Throws Error, naming the operation, if an operation failed or exceeds
  // CommSettings::hang_timeout. Does nothing if Views are sent through host memory.
  void synchronize() const;
  // Returns the labels of abandoned operations, whose Pending was destroyed before wait(), for
  // example by an exception. drain() completes these operations, makes the compute queue wait for
  // them and frees their memory. drain() throws Error with the messages of operations that failed.
  // Call drain() after an error that all ranks share, while the backends still exist.
  std::vector<std::string> abandoned() const;
  void drain() const;
  // Calls `work` whenever this rank advances its operations: between ops, and while the rank waits.
  // A job has at most one such function. It must be cheap and must neither throw nor call a
  // function of a Communicator. An empty function ends the calls.
  void set_companion(std::function<void()> work) const;
  // Notifies `o` of all further calls on the job's communicators by this rank, until `o` is
  // destroyed. Null ends notification.
  void set_observer(engine::Observer* o) const;
  // Returns an identifier of this communicator. Copies of the communicator have the same
  // identifier.
  const engine::Context* id() const { return context_.get(); }

 private:
  friend class PendingMaximum;
  friend class ByteMessage;
  Communicator(std::shared_ptr<engine::Progress>, std::unique_ptr<transport::HostTransport>);
  Pending begin(Backend&, Queue, engine::Call) const;
  std::int64_t longest_message() const;
  void touch(Backend&, Queue, const ConstView& read, const View& written) const;
  // Compares `what` over the ranks before a collective if CommSettings::check_labels is set. Throws
  // Error if `what` differs, because the ranks then call different operations.
  void require_same(const std::function<std::string()>& what) const;
  // Blocks until an operation on host memory completes.
  void finish(transport::Transport::Request, const std::function<std::string()>& what) const;
  void reduce(std::span<double>, transport::Reduction) const;
  std::vector<std::string> gather_texts(const std::string&) const;

  std::shared_ptr<engine::Context> context_;
  int rank_ = 0, size_ = 1;
};

}  // namespace trireme
