#pragma once
// Store: the state of a model (master weights, moments, gradients) as flat shards, tied to the
// model and not to who uses it. Session: one borrower's turn. Parts get Leases (weights) and
// UnitGradients; both are views, which nothing may outlive.
//
// With one rank in the shard group a lease is a view of the shard and a unit's gradient buffer is
// its gradient shard: no block, no copy, no collective.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/model/model.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

// What a parameter's state consists of.
enum class State : std::uint8_t { weight, moment1, moment2 };
// What is kept beside the weights: nothing, gradients, gradients and two moments.
enum class Upkeep : std::uint8_t { forward, sgd, adamw };

class Session;

class Store {
 public:
  // Takes weights, gradients and moments of `compute`'s wide type; their contents are undefined
  // until initialize() or write(). Moments and gradients are zero.
  Store(Backend&, const ModelSpec&, Layout, DType compute, Upkeep);

  // normal(mean, std) by (seed, parameter name, element), on `threads` threads; the same numbers
  // for every layout. Moments and counts start afresh.
  void initialize(std::uint64_t seed, int threads);
  // Elements [first, first + bytes / size) of a parameter's state, in the master type, to and from
  // host memory.
  void read(ParamId, State, std::int64_t first, std::span<std::byte> bytes) const;
  void write(ParamId, State, std::int64_t first, std::span<const std::byte> bytes);
  // Casts every master weight into the compute type; called once after the last write().
  void refresh();

  const ModelSpec& spec() const { return spec_; }
  const Layout& layout() const { return layout_; }
  Backend& backend() const { return backend_; }
  DType master() const { return wide(compute_); }
  bool has_moments() const { return upkeep_ == Upkeep::adamw; }
  std::span<const std::uint8_t> trainable() const { return trainable_; }
  // Updates made to a parameter so far (Adam's count).
  std::int64_t count(ParamId p) const { return counts_[layout_.of_param[p.index()].segment]; }
  void set_count(ParamId p, std::int64_t n) { counts_[layout_.of_param[p.index()].segment] = n; }

  // After backward: parameters that no token reached get zeros, uses of a tied table are added in
  // order, and one sum of squares a parameter comes back, by ParamId.
  std::vector<double> finish_gradients();
  // Weights, moments and compute copy from the gradients times `scale`.
  void update(const AdamW&);
  void update(const Sgd&);

 private:
  friend class Session;
  friend class UnitGradients;
  friend class Lease;
  struct Shard {
    Tensor master, copy, moment1, moment2;  // copy shares master where the types are equal
    std::array<Tensor, 2> gradient;         // by Use; the second only of a tied table
    std::array<std::vector<std::uint8_t>, 2> written;  // by slot: has this step written it?
  };
  ConstView weight(ParamId) const;
  View state(ParamId, State) const;
  View piece(ParamId, State, std::int64_t first, std::size_t bytes) const;
  template <class Update>
  void each_range(double decay, const Update&);

  Backend& backend_;
  const ModelSpec& spec_;
  Layout layout_;
  DType compute_;
  Upkeep upkeep_;
  std::vector<Shard> shards_;  // by segment
  std::vector<std::int64_t> counts_;
  std::vector<std::uint8_t> trainable_;  // by ParamId
  bool open_ = false;
};

// Weights of the units a part borrowed.
class Lease final : public Weights {
 public:
  Lease(const Store& store, std::span<const Borrow> units) : store_(store), units_(units) {}
  ConstView operator[](ParamId) const override;

 private:
  const Store& store_;
  std::span<const Borrow> units_;
};

class UnitGradients final : public Gradients {
 public:
  UnitGradients(Store& store, std::span<const Borrow> units) : store_(store), units_(units) {}
  void add(std::span<const ParamId>, std::int64_t rows, const Fill&) override;

 private:
  Store& store_;
  std::span<const Borrow> units_;
};

// What a session is for: training starts new gradients.
enum class Purpose : std::uint8_t { train, forward };

class Session {
 public:
  // A second open session of one store is an Error, and so is training what has no gradients.
  Session(Store&, Purpose);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Lease gather(std::span<const Borrow> units) const { return {store_, units}; }
  UnitGradients gradients(std::span<const Borrow> units) const { return {store_, units}; }
  std::span<const std::uint8_t> trainable() const { return store_.trainable(); }

 private:
  Store& store_;
};

}  // namespace trireme
