#include "lib/train/snapshot.hpp"

#include <cstring>

#include "lib/base/array_names.hpp"

namespace trireme {

RankSlices rank_slices(const Store& store) {
  const auto& params = store.spec().params;
  RankSlices all;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto id = ParamId::at(i);
    if (!store.holds(id) || !store.reports(id) || !is_saved(params[i])) continue;
    const auto add = [&](std::string_view array) {
      const auto mine = store.own(id, array);
      if (mine.count() == 0) return;
      all.slices.push_back({params[i].name, std::string(array), store.shape(id, array), mine.begin,
                            mine.count(), store.master()});
      all.params.push_back(id);
    };
    add(weights_array);
    if (!store.has_arrays(id)) continue;
    for (const auto& array : store.arrays(id)) add(array);
  }
  return all;
}

static double bytes_of(const ParamSlice& s) {
  return static_cast<double>(s.count) * static_cast<double>(bytes_of(s.dtype));
}

double bytes_of(const RankSlices& all) {
  double bytes = 0;
  for (const auto& s : all.slices) bytes += bytes_of(s);
  return bytes;
}

double changing_bytes(const Store& store, const RankSlices& all) {
  double bytes = 0;
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    const auto p = all.params[i].index();
    const bool frozen =
        store.spec().params[p].learns_from == LearnsFrom::gradients && store.trainable()[p] == 0;
    // Averages move towards the weights, also if the weights are frozen.
    if (!frozen || all.slices[i].array == average_array) bytes += bytes_of(all.slices[i]);
  }
  return bytes;
}

SliceSource elements_of(const Store& store, const RankSlices& all) {
  std::map<std::string, ParamId> ids;
  for (std::size_t i = 0; i < all.slices.size(); ++i)
    ids.emplace(all.slices[i].name, all.params[i]);
  return [&store, ids = std::move(ids)](const ParamSlice& s, std::int64_t first,
                                        std::span<std::byte> to) {
    store.read(ids.at(s.name), s.array, s.begin + first, to);
  };
}

// Returns the number of elements to copy. Copies include the padding of shards, so that ranks with
// equal shards have copies of equal size. Without padding, sizes would differ between ranks, and a
// plan shows only one size.
static std::int64_t elements_to_copy(const Store& store) {
  const auto& params = store.spec().params;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < store.layout().segments.size(); ++i) {
    const auto& segment = store.layout().segments[i];
    const auto first = segment.slots.front().param;
    if (!store.reports(first) || !is_saved(params[first.index()])) continue;
    const auto own = store.sharding().own(segment).count();
    elements += own;
    if (!store.has_arrays(first)) continue;
    const auto& state = store.shards().state(i);
    for (const auto& array : state.elementwise) elements += array.most_held(own);
    for (const auto& square : state.squares)
      elements += store.sharding().own(segment, square.elements).count();
  }
  return elements;
}

void Snapshot::reserve(const Store& store) {
  const auto elements = elements_to_copy(store);
  if (elements == 0 || (copy_ && copy_.shape().count() >= elements)) return;
  copy_ = {};  // free the old copy first
  copy_ = Tensor::empty(store.backend(), {elements}, store.master(), MemoryKind::snapshot,
                        Queue::compute, Memory::pinned);
}

void Snapshot::take(const Store& store, const RankSlices& all) {
  reserve(store);
  begins_.clear();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    const auto& s = all.slices[i];
    const View to = copy_.slice(begin, {s.count}).view();
    store.read(all.params[i], s.array, s.begin,
               {to.data, static_cast<std::size_t>(s.count) * bytes_of(s.dtype)});
    begins_[{s.name, s.array}] = begin;
    begin += s.count;
  }
}

SliceSource Snapshot::elements() const {
  return [this](const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
    const auto begin = begins_.at({s.name, s.array}) + first;
    const auto* from = copy_.view().data + begin * static_cast<std::int64_t>(bytes_of(s.dtype));
    std::memcpy(to.data(), from, to.size());
  };
}

}  // namespace trireme
