#include "lib/comm/whole_lane.hpp"

namespace trireme {
namespace {

std::span<const float> floats(const ConstView& v) {
  return {reinterpret_cast<const float*>(v.data), static_cast<std::size_t>(v.count())};
}

std::span<float> floats(const View& v) {
  return {reinterpret_cast<float*>(v.data), static_cast<std::size_t>(v.count())};
}

}  // namespace

WholeLane::WholeLane(const Route& route, const Whole& whole)
    : route_(route), whole_(whole), finished_(!whole) {
  if (whole_.summands && whole_.how == Accumulate::add)
    arriving_ = Tensor::empty(route_.backend, {whole_.sum.count()}, whole_.sum.dtype, Kind::staging,
                              route_.queue);
}

bool WholeLane::post() {
  if (finished_ || request_) return false;
  auto& wire = *route_.device;
  if (const auto& all = whole_.gathered)
    request_ = wire.all_gather({all.data, all.span_bytes()}, route_.stream());
  else
    request_ =
        wire.reduce_scatter(floats(whole_.summands),
                            floats(arriving_ ? arriving_.view() : whole_.sum), route_.stream());
  return true;
}

bool WholeLane::land() {
  if (!request_ || finished_ || !route_.wire->test(*request_)) return false;
  if (arriving_) route_.backend.copy(route_.queue, whole_.sum, arriving_.view(), Accumulate::add);
  return finished_ = true;
}

void WholeLane::release(Event e) {
  if (arriving_) arriving_.used(e);
  arriving_ = {};
}

}  // namespace trireme
