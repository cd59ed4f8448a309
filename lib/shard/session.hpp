#pragma once
// A Session is one program's use of a store. It gathers weights ahead of their use and reduces
// gradients after their use, in the order of a BorrowPlan. All collectives are issued at fixed
// points of the program.
//
// If this rank holds whole segments, borrowed weights are views of the store and gradients are
// added to the sums in place, without allocations, copies or collectives. Weights that are stored
// in a narrower type than the compute type (kept.hpp) are gathered in the narrow type. Each borrow
// widens them and frees the widened copy when the borrow ends. Weights that are sent in fp8
// (encoded_shards.hpp) are decoded in the same way.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/shard/borrow.hpp"
#include "lib/shard/encoded_shards.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Weights of a unit (a set of parameters that are all-gathered together) on this rank after the
// all-gather. All borrows that read these weights share them.
struct Gathered {
  UnitId unit;
  int uses = 0;  // borrows to come
  // Gathered weights in their storage type, or codes, one tensor per segment. If this rank holds
  // the whole segment, the tensor is empty.
  std::vector<Tensor> flat;
  std::vector<Pending> pending;  // each keeps its tensor alive, even if the program is aborted
};

// Weights of the units that a part borrowed. Views from this object become invalid when it is
// destroyed.
class BorrowedWeights final : public Weights {
 public:
  ConstView operator[](ParamId) const override;

 private:
  friend class Session;
  BorrowedWeights(const Store& store, std::span<const Borrow> units)
      : store_(store), units_(units) {}
  const Store& store_;
  std::span<const Borrow> units_;
  struct Held {
    std::shared_ptr<Gathered> gathered;
    // Widened or decoded weights, one tensor per segment of the unit. A tensor is empty if the
    // segment is sent in the type in which it is used.
    std::vector<Tensor> widened;
  };
  std::vector<Held> held_;  // indexed by unit in units_
};

// Accumulator for the gradients of the units that a part borrowed. Pass it to Session::scatter()
// after the last addition.
class BorrowedGradients final : public Gradients {
 public:
  void add(std::span<const ParamId>, std::int64_t rows, const Fill&) override;
  void add_whole(std::span<const ParamId>, std::int64_t leaves, const FillWhole&) override;

 private:
  friend class Session;
  BorrowedGradients(Store& store, std::span<const Borrow> units, int microbatch)
      : store_(store), units_(units), microbatch_(microbatch) {}
  struct Held {
    std::size_t segment;
    Use use;
    std::shared_ptr<GradientBuffer> buffer;
  };
  struct Destination {
    std::vector<View> of_param;  // empty if the parameter is frozen
    Accumulate how;
  };
  Destination destination(std::span<const ParamId>);
  void add_leaves(std::span<const ParamId>, std::int64_t rows, const Fill&);

  Store& store_;
  std::span<const Borrow> units_;
  int microbatch_;
  std::vector<Held> held_;  // trainable segments only
};

// An open session of a store. A store has at most one open session.
class Session {
 public:
  // Opens the session. Purpose::train gathers weights in fp8 where the layout says so. Throws Error
  // under the conditions that Store::begin() describes.
  Session(Store&, Purpose, BorrowPlan);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the weights of `units` and starts the gathers that the plan schedules ahead. Throws
  // Error, naming the unit, if the next unit in the plan is a different one.
  BorrowedWeights gather(std::span<const Borrow> units);
  // Returns an accumulator for the gradients of `units` in one micro-batch.
  BorrowedGradients gradients(std::span<const Borrow> units, int microbatch);
  // Starts the reduce-scatters that become due now that these gradients have been added.
  void scatter(BorrowedGradients);
  // Skips a part's visit without sending anything. All ranks that share the part's units must skip
  // the visit. `read` and `added` are the units whose weights and gradients the part would have
  // borrowed.
  void skip(std::span<const Borrow> read, std::span<const Borrow> added);
  std::span<const std::uint8_t> trainable() const { return store_.trainable(); }
  // Waits for all operations in flight. Throws Error if the plan contains a borrow that was not
  // made. A session that is destroyed without close() counts as aborted. The store then refuses new
  // sessions until Communicator::drain() has completed its operations in flight.
  void close();

 private:
  const std::string& name_of(UnitId u) const { return store_.spec().units[u.index()]; }
  bool is_encoded(std::size_t segment) const;
  // Returns this rank's shard of a segment as it is sent.
  const Tensor& sent(std::size_t segment) const;
  std::shared_ptr<Gathered> take(UnitId);
  void start_next();
  void look_ahead();
  void arrive(Gathered&);
  std::vector<Tensor> widen(const Gathered&);
  void land();
  void complete(UnitId);

  // Keeps the store open, also while the constructor may fail.
  struct Opened {
    Opened(Store& s, Purpose purpose) : store(s) { store.begin(purpose); }
    ~Opened() { store.end(); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    Store& store;
  };

  Store& store_;
  const Layout& layout_;
  const Sharding& sharding_;
  BorrowPlan plan_;
  Opened opened_;
  std::optional<EncodedShards> encoded_;  // for Purpose::train
  // Gathered weights indexed by GatherStep. Null after they have been freed.
  std::vector<std::shared_ptr<Gathered>> gathered_;
  std::size_t next_read_ = 0;  // index into plan_.reads
  std::size_t taken_ = 0;      // gathers that some borrow reads or has read
  std::map<std::pair<UnitId, Use>, int> borrows_left_;
  // Gradients of whole segments that have not been sent yet, by segment and use.
  std::map<std::pair<std::size_t, Use>, std::shared_ptr<GradientBuffer>> kept_;
  // Reduce-scatters of one unit in flight. Each keeps its buffer alive.
  struct Leaving {
    std::vector<Pending> pending;
    std::optional<UnitId> last;  // the unit, if nothing more is added to it in this step
  };
  std::deque<Leaving> leaving_;
  ReplicaSums replicas_;
};

}  // namespace trireme
