#include "lib/train/sums.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lib/ops/head.hpp"

namespace trireme {

LossSum LossSum::counted(fixed::Int128 quanta, std::int64_t valid) {
  return {fixed::to_double(quanta, fixed::loss_bits), valid, quanta};
}

LossSum& LossSum::operator+=(const LossSum& x) {
  valid += x.valid;
  sum += x.sum;
  // Add fixed-point sums exactly and round the result once. If a sum is not finite, the result is
  // not finite either.
  if ((quanta || x.quanta) && std::isfinite(sum))
    *this = counted(quanta.value_or(0) + x.quanta.value_or(0), valid);
  return *this;
}

Losses download(const Communicator& world, Backend& b, std::span<const Tensor> losses,
                std::int64_t tokens) {
  Losses all;
  world.synchronize();
  for (const auto& t : losses) {
    const auto one = ops::Head::download(b, t);
    all.sum += one.sum;
    all.quanta += one.quanta;
    all.largest =
        std::max(all.largest, static_cast<double>(one.largest) * static_cast<double>(tokens));
  }
  return all;
}

// Adds weight times sum. The sum is too large to be counted if the losses have overflowed, which
// the largest loss shows; the product then wraps around.
static void add_product(fixed::Int128& to, std::int64_t weight, std::int64_t sum) {
  using Unsigned = unsigned __int128;
  to = static_cast<fixed::Int128>(static_cast<Unsigned>(to) +
                                  static_cast<Unsigned>(static_cast<fixed::Int128>(weight) * sum));
}

Losses download_weighted(const Communicator& world, Backend& b, std::span<const Tensor> losses,
                         std::span<const WeightedRows> rows, std::int64_t tokens) {
  Losses all;
  all.bits = fixed::loss_bits + weight_bits;
  world.synchronize();
  for (std::size_t m = 0; m < losses.size(); ++m) {
    const auto& weights = rows[m].weights;
    if (losses[m].dtype() == DType::f64) {
      const auto sums = ops::Head::download_sums(b, losses[m]);
      for (std::size_t i = 0; i < weights.size(); ++i)
        all.sum += static_cast<double>(weights[i]) * sums[i];
      continue;
    }
    const auto one = ops::Head::download_quanta(b, losses[m]);
    for (std::size_t i = 0; i < weights.size(); ++i)
      add_product(all.quanta, weight_quanta(weights[i]), one.sums[i]);
    all.largest =
        std::max(all.largest, static_cast<double>(one.largest) * static_cast<double>(tokens));
  }
  return all;
}

static void append(std::vector<double>& to, fixed::Int128 x) {
  const auto limbs = fixed::to_limbs(x);
  to.insert(to.end(), limbs.begin(), limbs.end());
}
static std::span<const double, fixed::limbs> limbs_at(std::span<const double> all, std::size_t i) {
  return all.subspan(i * fixed::limbs).first<fixed::limbs>();
}
// Returns a message if the fixed-point loss sum may have overflowed, otherwise an empty string.
static std::string overflow_of_losses(double largest) {
  if (largest < fixed::loss_limit || !std::isfinite(largest)) return {};
  return fmt::format(
      "the losses may reach {:.3g}, but run.exactness = \"invariant\" can count only up to {:.3g}: "
      "the model has diverged",
      largest, fixed::loss_limit);
}

static std::optional<std::size_t> first_not_finite(std::span<const double> x) {
  const auto bad = std::ranges::find_if(x, [](double s) { return !std::isfinite(s); });
  if (bad == x.end()) return std::nullopt;
  return static_cast<std::size_t>(bad - x.begin());
}

// Sums over all ranks in one all-reduce: the squares of each parameter, and then the loss.
StepSums add_in_order(const Communicator& world, GradientNorms norms, const Losses& losses) {
  auto& sums = norms.squares;
  sums.push_back(losses.sum);
  world.all_reduce(sums);
  StepSums s;
  s.loss = sums.back();
  sums.pop_back();
  for (double square : sums) s.squares += square;
  s.not_finite = first_not_finite(sums);
  return s;
}

// Does the same with fixed-point numbers, whose sum does not depend on the order. One all-reduce
// sums their limbs and the numbers of leaves. A second one finds the largest terms, which show
// whether a sum may have overflowed.
StepSums add_counts(const Communicator& world, const ModelSpec& spec, GradientNorms norms,
                    const Losses& losses) {
  const auto params = spec.params.size();
  auto& sums = norms.squares;
  append(sums, losses.quanta);
  sums.insert(sums.end(), norms.leaves.begin(), norms.leaves.end());
  world.all_reduce(sums);
  auto& largest = norms.largest;
  largest.push_back(losses.largest);
  world.all_reduce_max(largest);
  StepSums s;
  s.not_finite = first_not_finite(std::span(largest).first(params));
  if (s.not_finite || !std::isfinite(largest.back())) {
    s.loss = s.squares = std::nan("");
    return s;
  }
  s.overflow = overflow_of_losses(largest.back());
  fixed::Int128 squares = 0;
  for (std::size_t i = 0; i < params; ++i) {
    const double bound = largest[i] * sums[(params + 1) * fixed::limbs + i];
    if (bound >= fixed::gradient_limit && s.overflow.empty())
      s.overflow = fmt::format(
          "the gradient of {} may reach {:.3g}, but run.exactness = \"invariant\" can count only "
          "up to {:.3g}: the model has diverged. Lower optimizer.lr or raise schedule.warmup_steps",
          spec.params[i].name, bound, fixed::gradient_limit);
    squares = fixed::capped_sum(squares, fixed::of_limbs(limbs_at(sums, i)));
  }
  if (squares == fixed::most && s.overflow.empty())
    s.overflow = fmt::format(
        "the gradient norm is at least {:.0f}, the largest that run.exactness = \"invariant\" can "
        "count: the model has diverged. Lower optimizer.lr or raise schedule.warmup_steps",
        std::sqrt(fixed::to_double(fixed::most, fixed::square_bits)));
  s.squares = fixed::to_double(squares, fixed::square_bits);
  s.loss = fixed::to_double(fixed::of_limbs(limbs_at(sums, params)), losses.bits);
  return s;
}

EvaluationSums add_losses(const Communicator& world, const Losses& losses, std::int64_t valid,
                          bool counted) {
  std::vector<double> sums{static_cast<double>(valid), losses.sum};
  append(sums, losses.quanta);
  world.all_reduce(sums);
  const auto all_valid = static_cast<std::int64_t>(sums[0]);
  if (!counted) return {{sums[1], all_valid}, {}};
  double largest = losses.largest;
  world.all_reduce_max({&largest, 1});
  if (auto overflow = overflow_of_losses(largest); !overflow.empty())
    return {{0, all_valid}, std::move(overflow)};
  if (!std::isfinite(largest)) return {{std::nan(""), all_valid}, {}};
  return {LossSum::counted(fixed::of_limbs(std::span(sums).subspan<2, fixed::limbs>()), all_valid),
          {}};
}

}  // namespace trireme
