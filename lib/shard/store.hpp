#pragma once
// Store holds the state of a model: weights, gradients and optimizer arrays. The store belongs to
// the model and outlives the programs that use it. Programs borrow weights and gradients from the
// store through a Session (session.hpp).
//
//   policy.hpp        the meaning of zero.stage: what is gathered and summed when
//   sharding.hpp      which ranks hold what
//   layout.hpp        the place of each parameter in its segment
//   shards.hpp        this rank's weights and optimizer arrays
//   trainability.hpp  which segments are trained
//   gradients.hpp     gradient sums over micro-batches and ranks, which the optimizer reads
//   matrix_updates.hpp  updates by optimizers that see whole matrices
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/shard/config.hpp"
#include "lib/shard/gradients.hpp"
#include "lib/shard/matrix_updates.hpp"
#include "lib/shard/optimizer_rules.hpp"
#include "lib/shard/shards.hpp"
#include "lib/shard/trainability.hpp"

namespace trireme {

// Purpose of a session. Purpose::train starts new gradient sums.
enum class Purpose : std::uint8_t { train, forward };

// The state of one stage of a model on this rank.
class Store {
 public:
  // Allocates weights, gradients and optimizer arrays. Weights are meaningful only after
  // initialize() or write(). Everything else is zero. Without rules, the store has no
  // gradients and no optimizer arrays, and nothing can be trained. `trainable` is indexed by
  // ParamId. If it is empty, all parameters are trained. GradientSums explains exact_chunk. If the
  // rules have an average_decay, the store keeps averages of the weights of all parameters that
  // have optimizer arrays, as their last array (average_array).
  Store(Backend&, const ModelSpec&, Layout, DType compute, std::optional<OptimizerRules>,
        Sharding = {}, std::vector<std::uint8_t> trainable = {}, std::int64_t exact_chunk = 0);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const ModelSpec& spec() const { return spec_; }
  const Layout& layout() const { return layout_; }
  const Sharding& sharding() const { return sharding_; }
  Backend& backend() const { return backend_; }
  DType master() const { return shards_.master(); }
  DType compute() const { return shards_.compute(); }

  // Functions that forward to Shards, where they are documented.
  void initialize(std::uint64_t seed, int threads) { shards_.initialize(seed, threads); }
  void initialize_adapters(std::uint64_t seed, int threads) {
    shards_.initialize_adapters(seed, threads);
  }
  Range own(ParamId p, std::string_view array = weights_array) const {
    return shards_.own(p, array);
  }
  Shape shape(ParamId p, std::string_view array) const { return shards_.shape(p, array); }
  bool holds(ParamId p) const { return shards_.holds(p); }
  // Returns true if this rank reports its part of the parameter in checkpoints, norms and digests.
  // If several replicas or two stages hold the part, exactly one of the ranks reports it.
  bool reports(ParamId) const;
  void read(ParamId p, std::string_view array, std::int64_t first, std::span<std::byte> to) const {
    shards_.read(p, array, first, to);
  }
  void write(ParamId p, std::string_view array, std::int64_t first,
             std::span<const std::byte> from) {
    shards_.write(p, array, first, from);
  }
  // Returns true if write() requires whole NF4 records of this parameter (Shards::write).
  bool in_records(ParamId p) const { return shards_.in_records(p); }
  void refresh() { shards_.refresh(); }
  void start_averages() { shards_.start_averages(); }
  void swap_averages() { shards_.swap_averages(); }
  bool averages() const { return shards_.averages(); }
  std::span<const std::string> arrays() const { return shards_.arrays(); }
  std::vector<std::string> arrays(ParamId p) const { return shards_.arrays(p); }
  // Returns true if the parameter has optimizer arrays on this rank. Frozen parameters may have
  // none.
  bool has_arrays(ParamId p) const { return shards_.has_arrays(p); }
  // Allocates optimizer arrays filled with zeros for a frozen parameter's segment, unless the
  // segment already has arrays.
  void make_arrays(ParamId);
  std::int64_t count(ParamId p) const { return shards_.count(p); }
  void set_count(ParamId p, std::int64_t n) { shards_.set_count(p, n); }

  // Adds `change` to this rank's part of a parameter that learns from expert loads. `change` has
  // one number for each element of the whole parameter.
  void add(ParamId p, std::span<const double> change) { shards_.add(p, change); }

  // Requests that a parameter be trained or frozen. The request takes effect in apply_trainable().
  // Requests for parameters that do not learn from gradients have no effect. Throws Error if the
  // store was created without an update rule.
  void set_trainable(ParamId, bool, ThawMoments = ThawMoments::fresh);
  // Applies the requests: allocates or frees gradients and optimizer arrays. Returns true if
  // anything changed. Throws Error, naming a parameter, if a change would split a segment. Also
  // throws Error if gradients are pending (discard_gradients() drops them) or if a session is open.
  bool apply_trainable();
  std::span<const std::uint8_t> trainable() const { return trainability_.trained(); }
  void discard_gradients() { pending_ = false; }

  // Completes the gradient sums after the backward pass (GradientSums::finish).
  GradientNorms finish_gradients() { return gradients_.finish(); }
  // Performs one optimizer update of weights, optimizer arrays, averages and compute copies. The
  // store supplies the update counts, and applies weight decay only to decayed parameters. Averages
  // of frozen parameters that keep their arrays move, too.
  void update(UpdateFactors);

  // Open and close a session. Only Session calls these functions. begin() throws Error if another
  // session is open, if operations of an earlier session are still in flight, if trainability
  // requests have not been applied, or if `Purpose` is train and the store has no gradients.
  void begin(Purpose);
  void end() { open_ = false; }
  const Shards& shards() const { return shards_; }
  const Trainability& trainability() const { return trainability_; }
  GradientSums& gradients() { return gradients_; }

 private:
  void move_averages();

  Backend& backend_;
  const ModelSpec& spec_;
  Layout layout_;
  Sharding sharding_;
  std::optional<OptimizerRules> rules_;
  Shards shards_;
  GradientSums gradients_;
  Trainability trainability_;
  MatrixUpdates matrices_;
  // `open_`: a session is open. `pending_`: there are gradients that no update has used.
  bool open_ = false, pending_ = false;
};

}  // namespace trireme
