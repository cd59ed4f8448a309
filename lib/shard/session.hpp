#pragma once
// Session: one program's use of a store. It gathers weights ahead of their use and sends gradients
// off behind it, in the order of a BorrowPlan, all at fixed points of the program.
//
// Where shards are whole, borrowed weights are views of the shard and a gradient is added where it
// stays: no block, no copy, no collective. What is kept in less than it is computed with (kept.hpp)
// is gathered as it is kept; each borrow widens it, and what it came to goes with that borrow.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/shard/borrow.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// A unit's weights on this rank for as long as somebody holds them.
struct Gathered {
  UnitId unit;
  int uses = 0;                  // borrows to come
  std::vector<Tensor> flat;      // as kept, by segment; absent where its shards are whole
  std::vector<Pending> pending;  // each keeps its tensor, also when a program is broken off
};

// Weights of the units that a part borrowed. Views into it end with it.
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
    std::vector<Tensor> widened;  // by segment of the unit; absent where nothing is kept in less
  };
  std::vector<Held> held_;  // by unit
};

// Takes the gradients of the units that a part borrowed; given to Session::scatter when complete.
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
    std::vector<View> of_param;  // absent where it is frozen
    Accumulate how;
  };
  Destination destination(std::span<const ParamId>);
  void add_leaves(std::span<const ParamId>, std::int64_t rows, const Fill&);

  Store& store_;
  std::span<const Borrow> units_;
  int microbatch_;
  std::vector<Held> held_;  // trainable segments alone
};

class Session {
 public:
  // Error as Store::begin says.
  Session(Store&, Purpose, BorrowPlan);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Error naming the unit when the plan has another one next.
  BorrowedWeights gather(std::span<const Borrow> units);
  BorrowedGradients gradients(std::span<const Borrow> units, int microbatch);
  void scatter(BorrowedGradients);
  // A part's visit that is left out, on all ranks that share its units: nothing is sent for it.
  void skip(std::span<const Borrow> read, std::span<const Borrow> added);
  std::span<const std::uint8_t> trainable() const { return store_.trainable(); }
  // Waits for what is on its way. Error naming what the plan has and nobody asked for. Without it
  // the session counts as broken off: what was in flight stays named until it is drained.
  void close();

 private:
  const std::string& name_of(UnitId u) const { return store_.spec().units[u.index()]; }
  std::shared_ptr<Gathered> take(UnitId);
  void start_next();
  void look_ahead();
  void arrive(Gathered&);
  std::vector<Tensor> widen(const Gathered&);
  void land();
  void complete(UnitId);

  Store& store_;
  const Layout& layout_;
  const Sharding& sharding_;
  BorrowPlan plan_;
  std::vector<std::shared_ptr<Gathered>> gathered_;  // by GatherStep; null: given back
  std::size_t next_read_ = 0;                        // of the plan
  std::size_t taken_ = 0;                            // gathers that some borrow reads or has read
  std::map<std::pair<UnitId, Use>, int> borrows_left_;
  // Whole gradients that are not sent yet, by segment and use.
  std::map<std::pair<std::size_t, Use>, std::shared_ptr<GradientBuffer>> kept_;
  // Of a unit; each keeps its buffer.
  struct Leaving {
    std::vector<Pending> pending;
    std::optional<UnitId> last;  // the unit, if nothing more is added to it
  };
  std::deque<Leaving> leaving_;
  ReplicaSums replicas_;
};

}  // namespace trireme
