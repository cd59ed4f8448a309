// Routing in mixture-of-experts layers: choices of experts, router losses, and rows sorted by
// expert.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::ref {
namespace {

using Row = std::vector<double>;

template <class T>
Row row_of(const Elements<const T>& x, std::int64_t t, std::int64_t n) {
  Row row(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) row[static_cast<std::size_t>(i)] = x(t, i);
  return row;
}

double largest_of(const Row& z) {
  return *std::ranges::max_element(z);
}

// Returns the log of the sum of exp(z). The largest z is subtracted first, so that no exponential
// overflows.
double log_sum_exp(const Row& z) {
  const double most = largest_of(z);
  double sum = 0;
  for (const double x : z) sum += std::exp(x - most);
  return most + std::log(sum);
}

Row softmax(Row z) {
  const double lse = log_sum_exp(z);
  for (double& x : z) x = std::exp(x - lse);
  return z;
}

Row scores_of(RouterScores kind, Row z) {
  if (kind == RouterScores::softmax) return softmax(std::move(z));
  for (double& x : z) x = 1 / (1 + std::exp(-x));
  return z;
}

double sum_of(const Row& x) {
  return std::accumulate(x.begin(), x.end(), 0.0);
}

// Returns the gradient with respect to z, given the scores s(z) and their gradient ds.
Row back_through(RouterScores kind, const Row& s, const Row& ds) {
  Row dz(s.size());
  const double mean =
      kind == RouterScores::softmax ? std::inner_product(s.begin(), s.end(), ds.begin(), 0.0) : 0;
  for (std::size_t e = 0; e < s.size(); ++e)
    dz[e] = kind == RouterScores::softmax ? s[e] * (ds[e] - mean) : s[e] * (1 - s[e]) * ds[e];
  return dz;
}

// Returns true if `a` is a better choice than b. NaN is worse than any number.
bool better(double a, double b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

// Returns the token as which token t is counted. A negative result marks padding.
std::int64_t counted_as(const ConstView& counted_T, std::int64_t t) {
  return counted_T ? Elements<const std::int32_t>(counted_T).at(t) : t;
}

// The counts of choices in the row of count_BE that a token belongs to, and their sum. The token
// must not be padding.
struct Counted {
  Row count_E;
  double sum;
  Counted(const ConstView& count_BE, const ConstView& counted_T, std::int64_t t,
          std::int64_t tokens) {
    const Elements<const std::int64_t> count(count_BE);
    const auto row = counted_as(counted_T, t) / (tokens / count_BE.extent[0]);
    for (std::int64_t e = 0; e < count_BE.extent[1]; ++e)
      count_E.push_back(static_cast<double>(count.at(row, e)));
    sum = sum_of(count_E);
  }
};

template <class T>
void route(const kernel::Route& o) {
  const Elements<const T> z(o.logits_TE), bias(o.bias_E);
  const Elements<T> weight(o.weight_TK);
  const Elements<std::int32_t> choice(o.choice_TK);
  const auto E = o.logits_TE.extent[1], K = o.choice_TK.extent[1];
  for (std::int64_t t = 0; t < o.logits_TE.extent[0]; ++t) {
    if (counted_as(o.counted_T, t) < 0) {
      for (std::int64_t k = 0; k < K; ++k) {
        choice.at(t, k) = static_cast<std::int32_t>((t * K + k) % E);
        weight.put(0, t, k);
      }
      continue;
    }
    const Row s = scores_of(o.scores, row_of(z, t, E));
    Row chosen_by = s;
    if (bias)
      for (std::int64_t e = 0; e < E; ++e) chosen_by[static_cast<std::size_t>(e)] += bias(e);
    std::vector<std::size_t> order(s.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return better(chosen_by[a], chosen_by[b]); });
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) sum += s[order[static_cast<std::size_t>(k)]];
    for (std::int64_t k = 0; k < K; ++k) {
      const auto e = order[static_cast<std::size_t>(k)];
      choice.at(t, k) = static_cast<std::int32_t>(e);
      weight.put(o.normalize ? s[e] / sum : s[e], t, k);
    }
  }
}

// Returns the gradient with respect to the scores s, given the gradient of the routing weights,
// which are computed from s.
Row through_weights(const kernel::RouteGrad& o, const Row& s, const Row& dweight,
                    const std::vector<std::size_t>& choice) {
  Row ds(s.size(), 0);
  double sum = 1, mean = 0;
  if (o.normalize) {
    sum = 0;
    for (const auto e : choice) sum += s[e];
    for (std::size_t k = 0; k < choice.size(); ++k) mean += dweight[k] * s[choice[k]] / sum;
  }
  for (std::size_t k = 0; k < choice.size(); ++k) ds[choice[k]] += (dweight[k] - mean) / sum;
  return ds;
}

template <class T, class D>
void route_grad(const kernel::RouteGrad& o) {
  expect(!o.dweight_TK || o.dweight_TK.extent == o.choice_TK.extent,
         "a weight's gradient is of its choice");
  const Elements<const T> z(o.logits_TE), dweight(o.dweight_TK);
  const Elements<const std::int32_t> choice(o.choice_TK);
  const Elements<D> dz(o.dlogits_TE);
  const auto T_all = o.logits_TE.extent[0], E = o.logits_TE.extent[1], K = o.choice_TK.extent[1];
  for (std::int64_t t = 0; t < T_all; ++t) {
    if (counted_as(o.counted_T, t) < 0) {
      for (std::int64_t e = 0; e < E; ++e) dz.put(0, t, e);
      continue;
    }
    const Row logits = row_of(z, t, E), s = scores_of(o.scores, logits);
    Row ds(s.size(), 0);
    if (dweight) {
      std::vector<std::size_t> chosen;
      for (std::int64_t k = 0; k < K; ++k)
        chosen.push_back(static_cast<std::size_t>(choice.at(t, k)));
      ds = through_weights(o, s, row_of(dweight, t, K), chosen);
    }
    if (o.balance_scale != 0) {
      const Counted counted(o.count_BE, o.counted_T, t, T_all);
      const double sum = sum_of(s), scale = o.balance_scale * static_cast<double>(E) / counted.sum;
      double mean = 0;
      for (std::size_t e = 0; e < s.size(); ++e) mean += counted.count_E[e] * s[e] / sum;
      for (std::size_t e = 0; e < s.size(); ++e) ds[e] += scale * (counted.count_E[e] - mean) / sum;
    }
    Row all = back_through(o.scores, s, ds);
    if (o.z_scale != 0) {
      const double slope = 2 * o.z_scale * log_sum_exp(logits);
      const Row p = softmax(logits);
      for (std::size_t e = 0; e < all.size(); ++e) all[e] += slope * p[e];
    }
    for (std::int64_t e = 0; e < E; ++e) dz.put(all[static_cast<std::size_t>(e)], t, e);
  }
}

// Calls take(load-balancing loss, z-loss) for each token that is not padding.
template <class T, class Take>
void losses(const kernel::RouterLosses& o, const Take& take) {
  const Elements<const T> z(o.logits_TE);
  const auto T_all = o.logits_TE.extent[0], E = o.logits_TE.extent[1];
  for (std::int64_t t = 0; t < T_all; ++t) {
    if (counted_as(o.counted_T, t) < 0) continue;
    const Row logits = row_of(z, t, E), s = scores_of(o.scores, logits);
    double balance = 0;
    if (o.count_BE) {
      const Counted counted(o.count_BE, o.counted_T, t, T_all);
      balance = static_cast<double>(E) / counted.sum *
                std::inner_product(s.begin(), s.end(), counted.count_E.begin(), 0.0) / sum_of(s);
    }
    const double lse = log_sum_exp(logits);
    take(balance, lse * lse);
  }
}

template <class T>
T* data_of(const View& v) {
  expect(v.dtype == dtype_of<T> && v.dense(), "indices and counts are dense integers");
  return reinterpret_cast<T*>(v.data);
}
const std::int32_t* choices_of(const ConstView& v) {
  expect(v.dtype == DType::i32 && v.dense(), "choices and places are dense i32");
  return reinterpret_cast<const std::int32_t*>(v.data);
}

template <class T>
void sum_rows(const kernel::SumRows& o) {
  const Elements<T> y(o.y_TC);
  const Elements<const T> x(o.x_RC), skip(o.skip_TC);
  const auto* place = choices_of(o.row_TK);
  const auto K = o.row_TK.extent[1];
  for (std::int64_t t = 0; t < o.y_TC.extent[0]; ++t)
    for (std::int64_t c = 0; c < o.y_TC.extent[1]; ++c) {
      double sum = skip ? skip(t, c) : 0;
      for (std::int64_t k = 0; k < K; ++k) sum += x(place[t * K + k], c);
      y.put(sum, t, c);
    }
}

}  // namespace

void run(const kernel::Route& o) {
  with_compute_type(o.logits_TE.dtype, [&](auto t) { route<decltype(t)>(o); });
}

void run(const kernel::RouteGrad& o) {
  with_compute_type(o.logits_TE.dtype, [&](auto t) {
    with_compute_type(o.dlogits_TE.dtype, [&](auto d) { route_grad<decltype(t), decltype(d)>(o); });
  });
}

void run(const kernel::RouterLosses& o) {
  const bool as_quanta = o.sums.dtype == DType::i64;
  auto* const quanta = reinterpret_cast<std::int64_t*>(o.sums.data);
  auto* const sums = reinterpret_cast<double*>(o.sums.data);
  auto* const largest = reinterpret_cast<float*>(o.largest.data);
  with_compute_type(o.logits_TE.dtype, [&](auto t) {
    losses<decltype(t)>(o, [&](double balance, double z) {
      const double both[] = {balance, z};
      for (int i = 0; i < 2; ++i) {
        if (as_quanta)
          quanta[i] = fixed::wrapping_sum(quanta[i], fixed::of_loss(both[i]));
        else
          sums[i] += both[i];
        if (largest) *largest = fixed::larger(*largest, static_cast<float>(both[i]));
      }
    });
  });
}

void run(const kernel::CountChoices& o) {
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.count_BE, .value = 0});
  const auto tokens = o.choice_TK.extent[0], K = o.choice_TK.extent[1], E = o.count_BE.extent[1];
  auto* const count = data_of<std::int64_t>(o.count_BE);
  const auto* choice = choices_of(o.choice_TK);
  const auto in_a_row = tokens / o.count_BE.extent[0];
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto as = counted_as(o.counted_T, t);
    if (as < 0) continue;
    for (std::int64_t k = 0; k < K; ++k) ++count[as / in_a_row * E + choice[t * K + k]];
  }
}

void run(const kernel::SortChoices& o) {
  const auto E = o.offset_E1.extent[0] - 1, K = o.choice_TK.extent[1], R = o.choice_TK.count();
  auto* const offset = data_of<std::int32_t>(o.offset_E1);
  auto* const token = data_of<std::int32_t>(o.token_R);
  auto* const row = data_of<std::int32_t>(o.choice_R);
  auto* const place = data_of<std::int32_t>(o.row_TK);
  const auto* choice = choices_of(o.choice_TK);
  std::int32_t next = 0;
  for (std::int64_t e = 0; e < E; ++e) {
    offset[e] = next;
    for (std::int64_t i = 0; i < R; ++i) {
      if (choice[i] != e) continue;
      token[next] = static_cast<std::int32_t>(i / K);
      row[next] = static_cast<std::int32_t>(i);
      place[i] = next++;
    }
  }
  offset[E] = next;
}

void run(const kernel::SumRows& o) {
  with_compute_type(o.y_TC.dtype, [&](auto t) { sum_rows<decltype(t)>(o); });
}

}  // namespace trireme::ref
