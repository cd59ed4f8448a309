#include "lib/comm/engine/collective_in_flight.hpp"

namespace trireme::engine {
namespace {

std::span<const float> floats(const ConstView& v) {
  return {reinterpret_cast<const float*>(v.data), static_cast<std::size_t>(v.count())};
}

std::span<float> floats(const View& v) {
  return {reinterpret_cast<float*>(v.data), static_cast<std::size_t>(v.count())};
}

}  // namespace

CollectiveInFlight::CollectiveInFlight(const Route& route, const NativeCollective& collective)
    : route_(route), collective_(collective), complete_(!collective) {
  if (collective_.summands && collective_.how == Accumulate::add)
    arriving_ = Tensor::empty(route_.backend, {collective_.sum.count()}, collective_.sum.dtype,
                              MemoryKind::staging, route_.queue);
}

bool CollectiveInFlight::post() {
  if (complete_ || request_) return false;
  auto& device = *route_.device;
  const auto& mine = collective_.slice;
  const auto& all = collective_.gathered;
  if (all)
    request_ = device.all_gather({mine.data, mine.span_bytes()}, {all.data, all.span_bytes()},
                                 route_.stream());
  else
    request_ = device.reduce_scatter(floats(collective_.summands),
                                     floats(arriving_ ? arriving_.view() : collective_.sum),
                                     route_.stream());
  return true;
}

bool CollectiveInFlight::test() {
  if (!request_ || complete_ || !route_.device->test(*request_)) return false;
  if (arriving_)
    route_.backend.put(
        route_.queue,
        kernel::Copy{.dst = collective_.sum, .src = arriving_.view(), .how = Accumulate::add});
  return complete_ = true;
}

void CollectiveInFlight::release(Event e) {
  if (arriving_) arriving_.used(e);
  arriving_ = {};
}

}  // namespace trireme::engine
