#pragma once
// This rank's shards of a stage's model: for each segment, the flat arrays of master weights, their
// copy in the compute type, and the optimizer's arrays. Shards owns this memory and gives the host
// access to it. Sharding describes which other ranks hold the rest.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/shard/kept.hpp"
#include "lib/shard/optimizer_rules.hpp"
#include "lib/shard/sharding.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Views of the master weights, copies and arrays in one range of a shard.
struct ShardViews {
  // `copy` is empty if the compute type equals the master type. A parameter that is never trained
  // has only `copy`, in its storage type, and an empty `master`.
  View master, copy;
  // The element arrays (StateArrays) that contain the whole range, and their names.
  std::vector<View> arrays;
  std::vector<std::string_view> names;
};

class Shards {
 public:
  // Allocates weights in the master type wide(compute), and their copies. Parameters that are never
  // trained (LearnsFrom::nothing) get only a copy, in their storage type. Weights are meaningful
  // only after initialize() or write(). make_arrays() allocates the arrays of `rules` for each
  // trained segment. Keeps references to its arguments, which must outlive it, except for `rules`.
  Shards(Backend&, const ModelSpec&, const Layout&, const Sharding&, DType compute,
         const std::optional<OptimizerRules>& rules);
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  DType compute() const { return compute_; }
  DType master() const { return wide(compute_); }
  // Returns the type in which computations use a segment's weights.
  DType type_of(const Segment& s) const { return s.wide ? master() : compute_; }
  // Returns how a segment's weights are stored.
  StorageType kept(const Segment& s) const { return {s, type_of(s)}; }

  // Fills this rank's weights with normally distributed random numbers on `threads` threads.
  // ModelSpec contains the distribution of each parameter. The numbers depend only on `seed`, the
  // parameter's name and the element, not on the layout. Also sets optimizer arrays and update
  // counts to zero.
  void initialize(std::uint64_t seed, int threads);
  // Initializes only the parameters of adapters, in the same way as initialize(). Other weights are
  // loaded from another source.
  void initialize_adapters(std::uint64_t seed, int threads);
  // Returns true if this rank stores the parameter in NF4 records (kernels/nf4.hpp).
  bool in_records(ParamId p) const;
  // Returns true if this rank's stage contains the parameter.
  bool holds(ParamId p) const { return layout_.of_param[p.index()].has_value(); }
  // Returns the elements of a parameter's array that this rank holds. The range is empty if there
  // are none. Only square arrays of optimizers have other elements than the weights.
  Range own(ParamId, std::string_view array = weights_array) const;
  // Returns the shape of a parameter's array.
  Shape shape(ParamId, std::string_view array) const;
  // Copy elements of a parameter's array to or from host memory. The elements begin at `first` and
  // must be inside own(). The length of the span determines their number. In host memory they have
  // the master type. A parameter in NF4 records must be written in whole records, except for the
  // last elements of own(). Throws Error if the array does not exist.
  void read(ParamId, std::string_view array, std::int64_t first, std::span<std::byte>) const;
  void write(ParamId, std::string_view array, std::int64_t first, std::span<const std::byte>);
  // Adds `change` to the master weights that this rank holds. `change` has one number for each
  // element of the whole parameter. Computations must use the parameter in the master type.
  void add(ParamId, std::span<const double> change);
  // Converts all master weights to the compute type. Call refresh() once after the last write().
  void refresh();

  // Sets the averages of weights (average_array), if there are any, to the weights.
  void start_averages();
  // Exchanges weights and averages of all parameters that have averages. Computations then use the
  // averages. Exchanges references to memory, and moves no data except for the copies of weights in
  // the compute type. A second call restores all bits.
  void swap_averages();

  // Returns the names of the optimizer's arrays of any parameter. If weights are averaged,
  // average_array is the last of them.
  std::span<const std::string> arrays() const { return names_; }
  // Returns the names of the arrays of a parameter that this rank's stage contains, in the same
  // order. They need not be allocated.
  std::vector<std::string> arrays(ParamId) const;
  // Returns true if weights are averaged.
  bool averages() const;
  // Returns true if the optimizer's arrays of the parameter are allocated on this rank.
  bool has_arrays(ParamId) const;
  // Allocates a segment's optimizer arrays, filled with zeros, or for averages with the weights.
  // Does nothing if the arrays exist. Does not change update counts.
  void make_arrays(std::size_t segment);
  // Frees a segment's optimizer arrays and resets its update counts.
  void drop_arrays(std::size_t segment);
  // Returns the number of updates to a parameter since its arrays were created, or 0 if another
  // stage holds the parameter. Parameters of one segment may have different counts, because some
  // may have been frozen before a restart.
  std::int64_t count(ParamId p) const { return counts_[p.index()]; }
  void set_count(ParamId, std::int64_t);

  // copy() returns a segment's shard of the weights in their storage type. weight() returns the
  // weights of one parameter. It requires that this rank holds the whole segment in the type in
  // which computations use it.
  const Tensor& copy(std::size_t segment) const { return shards_[segment].copy; }
  ConstView weight(ParamId) const;
  // Returns views of a range of a segment. The range must be inside this rank's shard.
  ShardViews views(std::size_t segment, Range) const;
  // Returns the arrays of a segment, and this rank's shard of square array number `k`.
  const StateArrays& state(std::size_t segment) const { return state_[segment]; }
  const Tensor& square(std::size_t segment, std::size_t k) const {
    return shards_[segment].squares[k];
  }

 private:
  struct Shard {
    // If the types are equal, `copy` shares the memory of `master`. `master` is empty for
    // parameters that are never trained.
    Tensor master, copy;
    std::vector<Tensor> arrays, squares;  // indexed like the members of StateArrays
  };
  // A flat array of a segment with a parameter's elements in it.
  struct Place {
    const Tensor* flat = nullptr;  // null if it is not allocated
    Slot slot;
    Range mine;  // elements of the flat array that this rank holds
  };
  Place place(ParamId, std::string_view array) const;
  Tensor zeros(std::int64_t, DType, MemoryKind) const;
  void start_average(Shard&);
  void initialize_weights(ParamId, std::uint64_t seed, int threads);
  template <class Master>
  void initialize_pieces(ParamId, std::uint64_t seed, int threads);
  // Returns the NF4 records that contain the given elements of a parameter.
  View records_of(ParamId, std::int64_t first, std::int64_t count) const;
  View view_of(ParamId, std::string_view array, std::int64_t first, std::int64_t count) const;

  Backend& backend_;
  const ModelSpec& spec_;
  const Layout& layout_;
  const Sharding& sharding_;
  DType compute_;
  std::vector<std::string> names_;
  HeadMatrices heads_ = HeadMatrices::together;
  std::vector<StateArrays> state_;    // indexed by segment
  std::vector<Shard> shards_;         // indexed by segment
  std::vector<std::int64_t> counts_;  // indexed by ParamId
};

}  // namespace trireme
