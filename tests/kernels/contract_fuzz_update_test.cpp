// AdamW on what is drawn at random.
#include <cmath>

#include "tests/kernels/error_bounds.hpp"
#include "tests/kernels/fuzz.hpp"

namespace trireme::fuzzing {
namespace {

class UpdateFuzzContract : public FuzzContract {};
INSTANTIATE_TEST_SUITE_P(Backends, UpdateFuzzContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// With |g| <= G after scaling, |m| <= M and v >= least the step is at most
// lr M / c1 / (sqrt(least / c2) + eps), c1 and c2 the corrections, and off by 14 roundings of that:
// 4 of m, 7 of the root, 3 of its own; m by 4 of M, v by 7 of itself. An infinite weight is left
// out: formulas of equal value differ there.
TEST_P(UpdateFuzzContract, AdamW) {
  fuzz([&](Draw& d) {
    const bool first = d.once_in(3);  // of all steps: moments are 0
    const rule::AdamW rule{.beta1 = d.one_of({0.0, 0.5, 0.9, 0.99}),
                           .beta2 = d.one_of({0.9, 0.95, 0.999}),
                           .eps = d.one_of({1e-8, 1e-6, 1e-3})};
    const UpdateFactors factors{.lr = d.real(1e-5, 0.3),
                                .decay = d.one_of({0.0, 0.1, 0.3}),
                                .scale = d.one_of({1.0, 0.5, 1e-3}),
                                .count = first ? 1 : d.one_of<std::int64_t>({1, 2, 10, 1000000})};
    struct Cut {
      std::int64_t begin, count;
    };
    std::vector<Cut> cuts;
    std::int64_t n = d.between(0, 3);
    for (auto left = d.once_in(10) ? 40 : d.between(1, 4); left > 0; --left) {
      const auto count = d.once_in(8) ? 0 : d.once_in(4) ? d.between(1, 5000) : d.between(1, 200);
      cuts.push_back({n, count});
      n += count + d.between(0, 3);
    }
    const bool copies = d.once_in(2);
    const auto odd = some_odd(d);
    const auto of_w = numbers(d, n, odd == Odd::none ? odd : Odd::nan);
    auto of_g = random_values(n, d.bits(), 3);
    auto of_m = first ? Numbers(of_g.size()) : numbers(d, n, odd);
    auto of_v = first ? Numbers(of_g.size()) : numbers(d, n, odd, 0.5, 0.6);
    if (first)
      for (double& g : of_g) g = std::copysign(0.5 + std::abs(g) / 6, g);
    const auto spoilt = numbers(d, n, odd);
    for (std::size_t i = 0; i < of_g.size(); ++i)
      if (!std::isfinite(spoilt[i])) of_g[i] = spoilt[i];
    if (!first)
      for (double& v : of_v) v = v == 0 ? 0.1 : std::abs(v);
    const auto at_w = some_margins(d), at_g = some_margins(d), at_m = some_margins(d),
               at_v = some_margins(d), at_copy = some_margins(d);
    const double most_g = (first ? 1 : 3) * factors.scale, most_m = first ? 0 : 1;
    const double M = rule.beta1 * most_m + (1 - rule.beta1) * most_g;
    const double G2 = most_g * most_g, most_v = first ? 0 : 1.1;
    const double least = first ? (1 - rule.beta2) * G2 / 4 : rule.beta2 * 0.1;
    const auto count = static_cast<double>(factors.count);
    const double c1 = 1 - std::pow(rule.beta1, count), c2 = 1 - std::pow(rule.beta2, count);
    const double step = factors.lr * M / c1 / (std::sqrt(least / c2) + rule.eps);
    compare(fmt::format("{} weights in {} shards, count {}", n, cuts.size(), factors.count),
            [=](Lab& lab) {
              const Placed w(lab, &Lab::wide_values, {n}, of_w, at_w);
              const Placed g(lab, &Lab::wide_values, {n}, of_g, at_g);
              const Placed m(lab, &Lab::wide_values, {n}, of_m, at_m);
              const Placed v(lab, &Lab::wide_values, {n}, of_v, at_v);
              const Placed copy(lab, &Lab::values, {n}, unwritten(n), at_copy);
              kernel::Update o{.rule = rule, .shards = {}};
              for (const auto& [begin, length] : cuts) {
                const auto cut = [&](const Placed& p) { return p.here.slice(0, begin, length); };
                o.shards.push_back({.master_N = cut(w),
                                    .copy_N = copies ? cut(copy) : View{},
                                    .grad_N = cut(g),
                                    .state_N = {cut(m), cut(v)},
                                    .factors = factors});
              }
              lab.backend.put(queue, o);
              const double u = roundoff(wide(lab.tested)), slack = u * (14 * step + 4 * (1 + step));
              w.result(lab, "w", slack);
              m.result(lab, "m", 4 * u * M);
              v.result(lab, "v", 7 * u * (rule.beta2 * most_v + (1 - rule.beta2) * G2));
              copy.result(lab, "copy", tolerance(wide(lab.tested), 1 + step, slack));
            });
  });
}

}  // namespace
}  // namespace trireme::fuzzing
