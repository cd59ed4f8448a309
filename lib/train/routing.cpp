#include "lib/train/routing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "lib/base/fixed.hpp"

namespace trireme {

RoutingSums::RoutingSums(Backend& b, const ModelSpec& spec, bool exact) : backend_(b), spec_(spec) {
  const auto& c = spec.config;
  if (c.experts == 0) return;
  const auto zeros = [&](const Shape& s, DType t) {
    Tensor x = Tensor::empty(b, s, t, MemoryKind::transient);
    b.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
    return x;
  };
  loads_ = zeros({c.layers, c.experts}, DType::i64);
  losses_ = zeros({2}, exact ? DType::i64 : DType::f64);
  if (exact) largest_ = zeros({1}, DType::f32);
  totals_ = {loads_.view(), losses_.view(), largest_.view(), &more_rounds_};
}

template <class T>
static std::vector<T> download(Backend& b, const Tensor& t) {
  std::vector<T> x(static_cast<std::size_t>(t.shape().count()));
  b.download(Queue::compute, std::as_writable_bytes(std::span(x)), t.view());
  return x;
}

Routing RoutingSums::read(const Communicator& world, std::int64_t tokens) const {
  Routing routing;
  if (!loads_) return routing;
  const auto& c = spec_.config;
  const auto experts = static_cast<std::size_t>(c.experts);
  world.synchronize();
  const auto loads = download<std::int64_t>(backend_, loads_);
  std::vector<double> sums(loads.begin(), loads.end());
  double largest = 0;
  if (largest_) {
    for (const auto quanta : download<std::int64_t>(backend_, losses_)) {
      const auto limbs = fixed::to_limbs(quanta);
      sums.insert(sums.end(), limbs.begin(), limbs.end());
    }
    largest = download<float>(backend_, largest_)[0];
    world.all_reduce_max({&largest, 1});
  } else {
    const auto losses = download<double>(backend_, losses_);
    sums.insert(sums.end(), losses.begin(), losses.end());
  }
  world.all_reduce(sums);
  for (std::int64_t l = 0; l < c.layers; ++l) {
    if (!has_experts(c, l)) continue;
    const auto of_layer = std::span(sums).subspan(static_cast<std::size_t>(l) * experts, experts);
    routing.layers.push_back(l);
    routing.loads.emplace_back(of_layer.begin(), of_layer.end());
  }
  const auto terms = static_cast<double>(tokens) * static_cast<double>(routing.layers.size());
  const auto losses = std::span(sums).subspan(loads.size());
  const auto mean = [&](std::size_t i) {
    if (!largest_) return losses[i] / terms;
    if (!(largest * terms < fixed::loss_limit)) return std::numeric_limits<double>::quiet_NaN();
    const auto limbs = losses.subspan(i * fixed::limbs).first<fixed::limbs>();
    return fixed::to_double(fixed::of_limbs(limbs), fixed::loss_bits) / terms;
  };
  double rounds = static_cast<double>(more_rounds_);
  world.all_reduce_max({&rounds, 1});
  routing.more_rounds = static_cast<std::int64_t>(rounds);
  routing.balance = mean(0);
  routing.z = mean(1);
  return routing;
}

std::vector<double> bias_change(const std::vector<std::int64_t>& loads, double rate) {
  const auto all = std::reduce(loads.begin(), loads.end(), std::int64_t{0});
  const auto experts = std::ssize(loads);
  std::vector<double> change;
  for (const auto load : loads) {
    const auto above = load * experts - all;
    change.push_back(above == 0 ? 0 : above < 0 ? rate : -rate);
  }
  return change;
}

}  // namespace trireme
