#pragma once
// Store: the state of a model, tied to the model and not to who uses it. Programs borrow from it
// through a Session (session.hpp).
//
//   policy.hpp        what zero.stage means: what is gathered and summed when
//   sharding.hpp      which ranks hold what
//   layout.hpp        where each parameter lies in its segment
//   shards.hpp        weights and the optimizer's arrays, as this rank holds them
//   trainability.hpp  which segments are trained
//   gradients.hpp     from microbatches' gradients to what the optimizer reads
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/shard/config.hpp"
#include "lib/shard/gradients.hpp"
#include "lib/shard/shards.hpp"
#include "lib/shard/trainability.hpp"

namespace trireme {

// What a program wants of a store: training starts new gradients.
enum class Purpose : std::uint8_t { train, forward };

class Store {
 public:
  // Takes weights, gradients and the optimizer's arrays; weights are undefined until initialize()
  // or write(), all else is zero. Without a rule there are neither gradients nor arrays, and
  // nothing can be trained. `trainable` by ParamId; empty: all. exact_chunk: see GradientSums.
  Store(Backend&, const ModelSpec&, Layout, DType compute, std::optional<UpdateRule>, Sharding = {},
        std::vector<std::uint8_t> trainable = {}, std::int64_t exact_chunk = 0);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const ModelSpec& spec() const { return spec_; }
  const Layout& layout() const { return layout_; }
  const Sharding& sharding() const { return sharding_; }
  Backend& backend() const { return backend_; }
  DType master() const { return shards_.master(); }
  DType compute() const { return shards_.compute(); }

  // The weights and what the optimizer keeps, as Shards says.
  void initialize(std::uint64_t seed, int threads) { shards_.initialize(seed, threads); }
  void initialize_saved(std::uint64_t seed, int threads) {
    shards_.initialize_saved(seed, threads);
  }
  Range own(ParamId p) const { return shards_.own(p); }
  bool holds(ParamId p) const { return shards_.holds(p); }
  // Is this rank the one that reports what it holds of it, among replicas and the two stages of
  // a tied table?
  bool reports(ParamId) const;
  void read(ParamId p, std::string_view array, std::int64_t first, std::span<std::byte> to) const {
    shards_.read(p, array, first, to);
  }
  void write(ParamId p, std::string_view array, std::int64_t first,
             std::span<const std::byte> from) {
    shards_.write(p, array, first, from);
  }
  // Is it written in whole records (Shards::write)?
  bool in_records(ParamId p) const { return shards_.in_records(p); }
  void refresh() { shards_.refresh(); }
  std::span<const std::string> arrays() const { return shards_.arrays(); }
  // Frozen parameters may have none.
  bool has_arrays(ParamId p) const { return shards_.has_arrays(p); }
  // Takes arrays for a frozen parameter's segment, zero, where there are none.
  void make_arrays(ParamId);
  std::int64_t count(ParamId p) const { return shards_.count(p); }
  void set_count(ParamId p, std::int64_t n) { shards_.set_count(p, n); }

  // Adds to a parameter that learns from loads, of which this rank takes what it holds.
  void add(ParamId p, std::span<const double> change) { shards_.add(p, change); }

  // Trainability. What learns from loads has no gradient, so none of this concerns it. A change of
  // the mask is a request until apply_trainable(). Error when the store
  // keeps no gradients.
  void set_trainable(ParamId, bool, ThawMoments = ThawMoments::fresh);
  // Compares the requests with what is; takes and gives back gradients and arrays. True when
  // something changed. Error, naming it, when a change would split a segment or when gradients are
  // pending (discard_gradients() drops those).
  bool apply_trainable();
  std::span<const std::uint8_t> trainable() const { return trainability_.trained(); }
  void discard_gradients() { pending_ = false; }

  // After backward: GradientSums::finish.
  GradientNorms finish_gradients() { return gradients_.finish(); }
  // One step of the rule: weights, arrays and compute copy. The counts are the store's own, and so
  // is what is not decayed.
  void update(UpdateFactors);

  // For sessions. begin() is an Error while another session of the store is open, when an earlier
  // one left something in flight, when there are no gradients to train with, and when requests are
  // not applied; end() follows it.
  void begin(Purpose);
  void end() { open_ = false; }
  const Shards& shards() const { return shards_; }
  const Trainability& trainability() const { return trainability_; }
  GradientSums& gradients() { return gradients_; }

 private:
  Backend& backend_;
  const ModelSpec& spec_;
  Layout layout_;
  Sharding sharding_;
  std::optional<UpdateRule> rule_;
  Shards shards_;
  GradientSums gradients_;
  Trainability trainability_;
  bool open_ = false, pending_ = false;  // a session; gradients that no update has used
};

}  // namespace trireme
