#include "lib/shard/digests.hpp"

#include <algorithm>

#include "lib/base/array_names.hpp"

namespace trireme {

namespace {

// The arrays whose digests are requested, and the place of each digest in the table.
class Request {
 public:
  Request(const Store& store, std::vector<std::string> arrays) : table_{std::move(arrays), {}} {
    table_.of.resize(table_.arrays.size());
    for (auto& of_array : table_.of) of_array.resize(store.spec().params.size());
  }

  void add(std::size_t array, ParamId p, const View& x, std::int64_t first) {
    operation_.parts.push_back({.x = x, .first = first});
    places_.emplace_back(array, p.index());
  }

  DigestTable answer(Backend& b, const Communicator& ranks) {
    const auto n = std::ssize(places_);
    if (n == 0) return std::move(table_);
    const Tensor out = Tensor::empty(b, {n}, DType::i64, MemoryKind::transient);
    operation_.out_N = out.view();
    b.put(Queue::compute, operation_);
    ranks.synchronize();
    std::vector<std::uint64_t> values(places_.size());
    b.download(Queue::compute, std::as_writable_bytes(std::span(values)), out.view());
    for (std::size_t i = 0; i < places_.size(); ++i)
      table_.of[places_[i].first][places_[i].second] = values[i];
    return std::move(table_);
  }

 private:
  DigestTable table_;
  kernel::Digest operation_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
};

enum class Of : std::uint8_t { reported, all };

// Calls f for each part of a parameter in this rank's shards. Arguments: the index of the segment,
// the range of its elements, the index of the first of these elements in the parameter, and the
// parameter.
template <class F>
void for_each_slice(const Store& store, Of which, const F& f) {
  const auto& segments = store.layout().segments;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (which == Of::reported && !store.sharding().reports(segments[i])) continue;
    for (const auto& slot : segments[i].slots) {
      const auto r =
          intersection(store.sharding().own(segments[i]), {slot.begin, slot.begin + slot.count});
      if (r.count() > 0) f(i, r, r.begin - slot.begin, slot.param);
    }
  }
}

}  // namespace

static DigestTable digests_of_sums(Store& store, Of which) {
  Request request(store, {std::string(gradients_array)});
  const auto& segments = store.layout().segments;
  for_each_slice(store, which, [&](auto i, Range r, auto first, ParamId p) {
    if (!store.trainability().trains(segments[i])) return;
    const auto begin = r.begin - store.sharding().own(segments[i]).begin;
    request.add(0, p, store.gradients().sum(i).slice(begin, {r.count()}).view(), first);
  });
  return request.answer(store.backend(), store.sharding().stage.gather);
}

DigestTable digests_of_gradients(Store& store) {
  return digests_of_sums(store, Of::reported);
}

DigestTable digests_of_all_gradients(Store& store) {
  return digests_of_sums(store, Of::all);
}

// Adds the parts of a segment's square arrays that this rank holds.
template <class NumberOf>
static void add_squares(Request& request, const Store& store, std::size_t i, Of which,
                        const NumberOf& number_of) {
  const auto& segment = store.layout().segments[i];
  if (which == Of::reported && !store.sharding().reports(segment)) return;
  if (!store.has_arrays(segment.slots[0].param)) return;
  const auto& squares = store.shards().state(i).squares;
  for (std::size_t k = 0; k < squares.size(); ++k) {
    const auto mine = store.sharding().own(segment, squares[k].elements);
    for (const auto& slot : squares[k].slots) {
      const auto r = intersection(mine, {slot.begin, slot.begin + slot.count});
      if (r.count() > 0)
        request.add(number_of(squares[k].array.name), slot.param,
                    store.shards().square(i, k).slice(r.begin - mine.begin, {r.count()}).view(),
                    r.begin - slot.begin);
    }
  }
}

static DigestTable digests_of_shards(Store& store, Of which, bool copies) {
  std::vector<std::string> names{std::string(weights_array)};
  names.insert(names.end(), store.arrays().begin(), store.arrays().end());
  if (copies) names.emplace_back(copies_array);
  Request request(store, names);
  const auto number_of = [&](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  for_each_slice(store, which, [&](auto i, Range r, auto first, ParamId p) {
    const auto [master, copy, arrays, array_names] = store.shards().views(i, r);
    // Parameters that are never trained have no master weights. Their weights are in the copies.
    if (master) request.add(0, p, master, first);
    for (std::size_t k = 0; k < arrays.size(); ++k)
      request.add(number_of(array_names[k]), p, arrays[k], first);
    if (copies && copy)
      request.add(names.size() - 1, p, copy,
                  store.shards().kept(store.layout().segments[i]).count(first));
  });
  for (std::size_t i = 0; i < store.layout().segments.size(); ++i)
    add_squares(request, store, i, which, number_of);
  return request.answer(store.backend(), store.sharding().stage.gather);
}

DigestTable digests_of_state(Store& store) {
  return digests_of_shards(store, Of::reported, false);
}

DigestTable digests_of_memory(Store& store) {
  return digests_of_shards(store, Of::all, true);
}

}  // namespace trireme
