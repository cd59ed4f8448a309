#pragma once
// The state of a stage's model on this rank: of each segment the shard of its master weights, their
// copy in the compute type, and the arrays that an optimizer keeps, all flat. Memory and host
// access to it; who else holds what is Sharding's.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/shard/kept.hpp"
#include "lib/shard/sharding.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Elements of a shard.
struct ShardViews {
  // copy is absent where master serves; of what learns from nothing it is alone, as it is kept.
  View master, copy;
  std::vector<View> arrays;
};

class Shards {
 public:
  // Takes weights of wide(compute), those that learn from nothing as they are kept alone, undefined
  // until initialize() or write(). `arrays`: names of
  // what the optimizer keeps of a segment that is trained; none is there yet. All that is referred
  // to outlives it.
  Shards(Backend&, const ModelSpec&, const Layout&, const Sharding&, DType compute,
         std::vector<std::string> arrays);
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  DType compute() const { return compute_; }
  DType master() const { return wide(compute_); }
  // That a segment's weights are computed with.
  DType type_of(const Segment& s) const { return s.wide ? master() : compute_; }
  KeptAs kept(const Segment& s) const { return {s, type_of(s)}; }

  // normal(mean, std) by (seed, parameter name, element), on `threads` threads; the same numbers
  // for every layout, and none but this rank's are made. Arrays and counts start afresh.
  void initialize(std::uint64_t seed, int threads);
  // The same of what checkpoints of the model have: the others' weights come from elsewhere.
  void initialize_saved(std::uint64_t seed, int threads);
  // Does it lie here in records (kernels/nf4.hpp)?
  bool in_records(ParamId p) const;
  // Does it lie on this rank's stage?
  bool holds(ParamId p) const { return layout_.of_param[p.index()].has_value(); }
  // The elements of a parameter that this rank holds; empty when none.
  Range own(ParamId) const;
  // Elements [first, first + bytes / size) of an array of a parameter, inside own(), in the master
  // type, to and from host memory. What is kept in records is written in whole ones, with what is
  // left of own() last. Error when the array is not there.
  void read(ParamId, std::string_view array, std::int64_t first, std::span<std::byte>) const;
  void write(ParamId, std::string_view array, std::int64_t first, std::span<const std::byte>);
  // master += change, by element of the parameter, for one that is computed with in the master
  // type.
  void add(ParamId, std::span<const double> change);
  // Casts every master weight into the compute type; called once after the last write().
  void refresh();

  // Names of the optimizer's arrays.
  std::span<const std::string> arrays() const { return names_; }
  bool has_arrays(ParamId) const;
  // Takes a segment's arrays, zero; nothing where it has them. The count stays.
  void make_arrays(std::size_t segment);
  void drop_arrays(std::size_t segment);
  // Updates made to a parameter since its arrays were fresh; 0 for one that lies on another stage.
  // Those of a segment may differ: a restart may find some of them frozen until then.
  std::int64_t count(ParamId p) const { return counts_[p.index()]; }
  void set_count(ParamId, std::int64_t);

  // A segment's shard of the weights as they are kept, and where that is all of the segment and as
  // they are computed with, one parameter's.
  const Tensor& copy(std::size_t segment) const { return shards_[segment].copy; }
  ConstView weight(ParamId) const;
  // Of elements of a segment, inside what this rank owns.
  ShardViews views(std::size_t segment, Range) const;

 private:
  struct Shard {
    Tensor master, copy;  // copy shares master where the types are equal; master: of what learns
    std::vector<Tensor> arrays;  // by name
  };
  Tensor zeros(std::int64_t, DType, Kind) const;
  void initialize_weights(ParamId, std::uint64_t seed, int threads);
  template <class Master>
  void initialize_pieces(ParamId, std::uint64_t seed);
  // Of a parameter that is kept in records, those with these of its elements.
  View records_of(ParamId, std::int64_t first, std::int64_t count) const;
  View view_of(ParamId, std::string_view array, std::int64_t first, std::int64_t count) const;

  Backend& backend_;
  const ModelSpec& spec_;
  const Layout& layout_;
  const Sharding& sharding_;
  DType compute_;
  std::vector<std::string> names_;
  std::vector<Shard> shards_;         // by segment
  std::vector<std::int64_t> counts_;  // by ParamId
};

}  // namespace trireme
