#pragma once
// Store: the state of a model (master weights, moments, gradients) as flat shards, tied to the
// model and not to who uses it. Programs borrow from it through a Session (session.hpp).
//
// A segment is cut into equal shards over the ranks of a shard group; equal shards of different
// groups are replicas. With one rank in the group every shard is whole. The settings of ZeRO
// (Rajbhandari et al. 2020) are all the same store: stage 0 is a group of one rank, stages 1 to 3
// differ in how often weights are gathered and gradients reduced.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/model/model.hpp"
#include "lib/shard/config.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

// What a parameter's state consists of.
enum class State : std::uint8_t { weight, moment1, moment2 };
// What is kept beside the weights: nothing, gradients, gradients and two moments.
enum class Upkeep : std::uint8_t { forward, sgd, adamw };

// How a store is spread. Default: one rank that holds everything.
struct Sharding {
  Communicator gather, scatter;  // the ranks that share one copy
  Communicator replicas;         // the ranks that hold the same shard
  // A table that two stages borrow: the stages, the one with the other use, and the use made here.
  Communicator stages;
  int tied_stage = -1;  // -1: both uses are made here
  Use tied_use = Use::own;
  ZeroCadence gather_every = ZeroCadence::microbatch, reduce_every = ZeroCadence::microbatch;
  int prefetch = 1, scatters = 1;  // units in flight
  DType wire = DType::f32;         // gradients on their way: bf16, or else the master type

  bool whole() const { return gather.size() == 1; }
};

class Store {
 public:
  // Takes weights, gradients and moments of `compute`'s wide type; weights are undefined until
  // initialize() or write(), moments and gradients are zero. `trainable` by ParamId; empty: all.
  Store(Backend&, const ModelSpec&, Layout, DType compute, Upkeep, Sharding = {},
        std::vector<std::uint8_t> trainable = {});

  // normal(mean, std) by (seed, parameter name, element), on `threads` threads; the same numbers
  // for every layout, and none but this rank's are made. Moments and counts start afresh.
  void initialize(std::uint64_t seed, int threads);
  // The elements of a parameter that this rank holds; empty when none.
  Range own(ParamId) const;
  // Does it lie on this rank's stage?
  bool holds(ParamId p) const { return layout_.of_param[p.index()].has_value(); }
  // Is this rank the one that speaks for what it holds of it, among replicas and the two stages of
  // a tied table?
  bool speaks_for(ParamId) const;
  // Elements [first, first + bytes / size) of a parameter's state, inside own(), in the master
  // type, to and from host memory.
  void read(ParamId, State, std::int64_t first, std::span<std::byte> bytes) const;
  void write(ParamId, State, std::int64_t first, std::span<const std::byte> bytes);
  // Casts every master weight into the compute type; called once after the last write().
  void refresh();

  const ModelSpec& spec() const { return spec_; }
  const Layout& layout() const { return layout_; }
  const Sharding& sharding() const { return sharding_; }
  Backend& backend() const { return backend_; }
  DType master() const { return wide(compute_); }
  DType compute() const { return compute_; }
  DType wire() const {
    return sharding_.wire == DType::bf16 && master() == DType::f32 ? DType::bf16 : master();
  }
  bool keeps_moments() const { return upkeep_ == Upkeep::adamw; }
  // Frozen parameters may have none.
  bool has_moments(ParamId) const;
  // Takes moments for a frozen parameter's segment, zero, where there are none.
  void make_moments(ParamId);
  // Updates made to a parameter so far (Adam's count); 0 for one that lies on another stage.
  std::int64_t count(ParamId) const;
  void set_count(ParamId, std::int64_t);

  // Trainability. A change of the mask is a wish until settle_trainable().
  void set_trainable(ParamId, bool, ThawMoments = ThawMoments::fresh);
  // Compares the wishes with what is; takes and gives back gradients and moments. True when
  // something changed. Error, naming it, when a change would split a segment or when gradients are
  // pending (discard_gradients() drops those).
  bool settle_trainable();
  // Error naming the parameters whose wish is not settled; compares version numbers alone.
  void require_settled() const;
  std::span<const std::uint8_t> trainable() const { return trainable_; }
  void discard_gradients() { pending_ = false; }

  // After backward: parameters that no token reached get zeros, uses of a tied table are added in
  // order, replicas are summed (as `wire` travels), a table's other stage gets that sum, and one
  // sum of squares a parameter comes back, by ParamId: of the elements that this rank speaks for.
  // To be added over all ranks.
  std::vector<double> finish_gradients();
  // Weights, moments and compute copy from the gradients times `scale`.
  void update(const AdamWFactors&);
  void update(const SgdFactors&);

 private:
  friend class Session;
  friend class Lease;
  friend class GradientLease;
  // A whole segment's gradient while it is made, or a shard's where shards are whole.
  struct GradientBuffer {
    Tensor flat;
    std::vector<std::uint8_t> written;  // by slot
  };
  struct Shard {
    Tensor master, copy, moment1, moment2;  // copy shares master where the types are equal
    std::array<std::shared_ptr<GradientBuffer>, 2> gradient;  // by Use
    std::array<bool, 2> reduced{};  // N ranks: has a reduce-scatter of this session arrived?
    bool trainable = false;
    ThawMoments thaw = ThawMoments::fresh;
    std::int64_t count = 0;
  };
  bool is_tied(const Segment&) const;
  bool tied_away(const Segment& s) const { return is_tied(s) && sharding_.tied_stage >= 0; }
  // Is what its gradient comes to summed on this stage? Else another stage sends it.
  bool sums_here(const Segment& s) const { return !tied_away(s) || sharding_.tied_use == Use::own; }
  Range own(const Segment&) const;
  bool speaks_for(const Segment&) const;
  ConstView weight(ParamId) const;
  const Tensor& state(const Shard&, State) const;
  View piece(ParamId, State, std::int64_t first, std::size_t bytes) const;
  Tensor zeros(std::int64_t, Kind) const;
  void hold_training_state(std::size_t segment);
  void clear_unwritten(const Segment&, const GradientBuffer&) const;
  void start_gradients();
  void complete_own_gradients();
  void send_tied(const Tensor&, const Segment&);
  void receive_tied(const Tensor&, const Segment&);
  void add_tied_uses();
  void sum_replicas();
  void share_tied_sums();
  template <class Update>
  void each_range(double decay, const Update&);

  Backend& backend_;
  const ModelSpec& spec_;
  Layout layout_;
  DType compute_;
  Upkeep upkeep_;
  Sharding sharding_;
  std::vector<Shard> shards_;                     // by segment
  std::vector<std::uint8_t> trainable_, wanted_;  // by ParamId: what is, what is wished
  std::vector<ThawMoments> thaw_;                 // by ParamId, of wishes
  std::int64_t version_ = 0, settled_ = 0;
  bool open_ = false, pending_ = false;
};

}  // namespace trireme
