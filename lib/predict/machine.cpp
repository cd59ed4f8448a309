#include "lib/predict/machine.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "kernels/operations.hpp"
#include "lib/predict/workloads.hpp"

namespace trireme {
namespace {

// The two elements of `x` between which a value lies, and how far it lies from the first (0) to the
// second (1).
struct Bracket {
  std::size_t low, high;
  double weight;
};

Bracket bracket(const std::vector<double>& x, double at) {
  if (at <= x.front()) return {0, 0, 0};
  if (at >= x.back()) return {x.size() - 1, x.size() - 1, 0};
  const auto high = static_cast<std::size_t>(std::ranges::upper_bound(x, at) - x.begin());
  return {high - 1, high,
          (std::log(at) - std::log(x[high - 1])) / (std::log(x[high]) - std::log(x[high - 1]))};
}

double product_rate(const ProductRates& r, const std::array<std::int64_t, 3>& mnk) {
  const auto m = bracket(r.m, static_cast<double>(mnk[0]));
  const auto n = bracket(r.n, static_cast<double>(mnk[1]));
  const auto k = bracket(r.k, static_cast<double>(mnk[2]));
  double log_rate = 0;
  for (const auto& [i, wi] : {std::pair(m.low, 1 - m.weight), std::pair(m.high, m.weight)})
    for (const auto& [j, wj] : {std::pair(n.low, 1 - n.weight), std::pair(n.high, n.weight)})
      for (const auto& [l, wl] : {std::pair(k.low, 1 - k.weight), std::pair(k.high, k.weight)})
        if (const double w = wi * wj * wl; w > 0)
          log_rate += w * std::log(r.flops[(i * r.n.size() + j) * r.k.size() + l]);
  return std::exp(log_rate);
}

double product_seconds(const MachineModel& machine, const Workload& a) {
  // Uses the rates of the layout, or else those of any layout. Rates in fp8 may be unknown. Those
  // of the compute type are then used, although products in fp8 are faster on a GPU and slower on a
  // CPU.
  const auto rates_of = [&](MatmulLayout layout) {
    return std::ranges::find_if(machine.products, [&](const ProductRates& r) {
      return r.dtype == a.dtype && r.layout == layout;
    });
  };
  auto rates = rates_of(a.layout);
  if (rates == machine.products.end() && a.layout == MatmulLayout::fp8)
    rates = rates_of(MatmulLayout::nt);
  if (rates == machine.products.end())
    rates = std::ranges::find_if(
        machine.products, [&](const ProductRates& r) { return r.dtype == a.dtype && !r.layout; });
  require(rates != machine.products.end(),
          "{} has no [[product]] with dtype {} and layout {}, which this step needs. Measure it "
          "with `trireme calibrate`, or add it to the file",
          machine.file, name_of(a.dtype), name_of(a.layout));
  const double computing = a.flops / product_rate(*rates, a.m);
  return machine.memory_bandwidth ? std::max(computing, a.bytes / *machine.memory_bandwidth)
                                  : computing;
}

// Returns the rates of the nearest head dim or, in a file that was not measured, of the same head
// dim. Returns null if there are none.
const AttentionRates* attention_rates(const MachineModel& machine, DType t, Direction d,
                                      std::int64_t head_dim, AttentionSpan span) {
  const AttentionRates* nearest = nullptr;
  for (const auto& r : machine.attention)
    if (r.dtype == t && r.direction == d && r.span == span &&
        (!nearest || std::abs(r.head_dim - head_dim) < std::abs(nearest->head_dim - head_dim)))
      nearest = &r;
  return nearest && (machine.measured || nearest->head_dim == head_dim) ? nearest : nullptr;
}

double attention_seconds(const MachineModel& machine, const Workload& a) {
  const auto d = a.name == kernel::Attention::name ? Direction::forward : Direction::backward;
  const auto rates_of = [&](AttentionSpan span) {
    return attention_rates(machine, a.dtype, d, a.head_dim, span);
  };
  const bool documents = a.within_documents && times_documents(machine, a.dtype, a.head_dim);
  const auto* nearest = documents ? rates_of(AttentionSpan::document) : nullptr;
  if (!nearest) nearest = rates_of(AttentionSpan::causal);
  require(nearest != nullptr,
          "{} has no [[attention]] with dtype {}, direction {} and head_dim {}, which this step "
          "needs. Measure it with `trireme calibrate`, or add it to the file",
          machine.file, name_of(a.dtype), name_of(d), a.head_dim);
  return a.flops / interpolate(nearest->tokens, nearest->flops, static_cast<double>(a.tokens),
                               Extrapolation::constant);
}

}  // namespace

double interpolate(const std::vector<double>& x, const std::vector<double>& y, double at,
                   Extrapolation how) {
  const auto [low, high, weight] = bracket(x, at);
  const double inside = std::exp((1 - weight) * std::log(y[low]) + weight * std::log(y[high]));
  const bool outside = at > x.back() || x.size() == 1;
  return how == Extrapolation::proportional && outside ? inside * at / x.back() : inside;
}

double required(const MachineModel& m, const std::optional<double>& value, std::string_view field,
                std::string_view why) {
  require(value.has_value(),
          "{} has no {}, which is needed for {}. Measure it with `trireme calibrate`, or add it to "
          "the file",
          m.file, field, why);
  return *value;
}

double share_of(const MachineModel& m, const LinkRates& link, std::string_view name) {
  return required(m, link.bandwidth, fmt::format("{}.bandwidth", name), "messages") /
         static_cast<double>(link.shared_by);
}

std::optional<double> peak_of(const MachineModel& m, DType t, bool tf32) {
  if (t == DType::f32 && tf32) return m.peak_tf32;
  const auto it = m.peak.find(t);
  return it == m.peak.end() ? std::nullopt : std::optional(it->second);
}

bool times_documents(const MachineModel& m, DType t, std::int64_t head_dim) {
  if (m.backend == "host") return true;
  const auto has = [&](Direction d) {
    return attention_rates(m, t, d, head_dim, AttentionSpan::document) != nullptr;
  };
  return has(Direction::forward) && has(Direction::backward);
}

double seconds_of(const MachineModel& machine, const Workload& a) {
  if (is_product(a.name)) return product_seconds(machine, a);
  if (a.name == kernel::Attention::name || a.name == kernel::AttentionGrad::name)
    return attention_seconds(machine, a);
  const OperationSeconds* found = nullptr;
  for (const auto& o : machine.operations)
    if (o.name == a.name && (!found || o.dtype == a.dtype)) found = &o;
  if (found) return interpolate(found->bytes, found->seconds, a.bytes, Extrapolation::proportional);
  return a.bytes / required(machine, machine.memory_bandwidth, "memory.bandwidth",
                            fmt::format("the operation {}", a.name));
}

}  // namespace trireme
