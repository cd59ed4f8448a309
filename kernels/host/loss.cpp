// Cross-entropy of softmax(logits). The gradient overwrites the logits if it is wanted. T rows, V
// vocabulary.
#include <limits>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/math/divergence.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"
#include "kernels/math/softcap.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::host {
namespace {

// Returns -log softmax(x)[target] = log(sum exp(x - max)) + (max - x[target]). The difference is
// computed first, because an offset that all logits share may be larger than the log. A NaN among
// the logits does not become the maximum, but makes the sum NaN.
template <class T>
double row_loss(T* x, std::int64_t width, std::int64_t target, float scale, Logits what) {
  Lanes<float> maxima(-std::numeric_limits<float>::infinity());
  const auto larger = [](float a, float b) { return b > a ? b : a; };
  for_lanes(width,
            [&](auto i, auto l) { maxima[l] = larger(maxima[l], static_cast<float>(x[i])); });
  const float max = maxima.fold(larger), at_target = static_cast<float>(x[target]);

  // f32 logits are overwritten with their exponentials immediately. bf16 would round the
  // exponentials.
  constexpr bool keep_exp = std::is_same_v<T, float>;
  Lanes<float> sums(0);
  if (keep_exp && what == Logits::become_gradient) {
    for_lanes(width, [&](auto i, auto l) {
      const float e = math::exp(static_cast<float>(x[i]) - max);
      sums[l] += e;
      put(x[i], e);
    });
  } else {
    for_lanes(width, [&](auto i, auto l) { sums[l] += math::exp(static_cast<float>(x[i]) - max); });
  }
  const float sum = sums.sum();

  if (what == Logits::become_gradient) {
    const float factor = scale / sum;
    if (keep_exp) {
      for_lanes(width, [&](auto i, auto) { put(x[i], static_cast<float>(x[i]) * factor); });
    } else {
      for_lanes(width, [&](auto i, auto) {
        put(x[i], math::exp(static_cast<float>(x[i]) - max) * factor);
      });
    }
    put(x[target], math::exp(at_target - max) * factor - scale);
  }
  return static_cast<double>(math::log(sum)) +
         (static_cast<double>(max) - static_cast<double>(at_target));
}

// Returns the loss of logits z under a soft cap. The gradient is multiplied by 1 - (z / cap)^2. z
// is computed wherever it is read.
template <class T>
double capped_row_loss(T* x, std::int64_t width, std::int64_t target, float scale, float cap,
                       Logits what) {
  const auto z = [&](std::int64_t i) { return math::capped(static_cast<float>(x[i]), cap); };
  Lanes<float> maxima(-std::numeric_limits<float>::infinity());
  const auto larger = [](float a, float b) { return b > a ? b : a; };
  for_lanes(width, [&](auto i, auto l) { maxima[l] = larger(maxima[l], z(i)); });
  const float max = maxima.fold(larger), at_target = z(target);
  Lanes<float> sums(0);
  for_lanes(width, [&](auto i, auto l) { sums[l] += math::exp(z(i) - max); });
  const float sum = sums.sum();
  if (what == Logits::become_gradient) {
    const float factor = scale / sum;
    for_lanes(width, [&](auto i, auto) {
      const float y = z(i);
      put(x[i], math::exp(y - max) * factor * math::capped_slope(y, cap));
    });
    put(x[target],
        (math::exp(at_target - max) * factor - scale) * math::capped_slope(at_target, cap));
  }
  return static_cast<double>(math::log(sum)) +
         (static_cast<double>(max) - static_cast<double>(at_target));
}

enum class Soft : std::uint8_t { plain, capped };

template <Soft kind, class T>
float under(T value, float cap) {
  const auto v = static_cast<float>(value);
  if constexpr (kind == Soft::capped) return math::capped(v, cap);
  return v;
}

// Returns the loss with a teacher whose logits are y, with p = softmax(y / t) and q = softmax(z /
// t). `flatten` inlines all calls. Without it the function is too long for the compiler to inline
// its lambdas, and the loops are not vectorized.
template <Soft own, Soft others, class T>
[[gnu::flatten]] double taught_row_loss(T* x, const T* theirs, std::int64_t width,
                                        std::int64_t target, float scale, float cap,
                                        const Teacher& teacher, Logits what) {
  const auto t = static_cast<float>(teacher.temperature), colder = 1 / t,
             share = static_cast<float>(teacher.share), rest = 1 - share,
             teacher_cap = static_cast<float>(teacher.softcap);
  const auto z = [&](std::int64_t i) { return under<own>(x[i], cap); };
  const auto y = [&](std::int64_t i) { return under<others>(theirs[i], teacher_cap); };
  constexpr float least = -std::numeric_limits<float>::infinity();
  const auto larger = [](float a, float b) { return b > a ? b : a; };
  Lanes<float> maxima_z(least), maxima_y(least), sums_z(0), sums_q(0), sums_p(0), divergences(0);
  for_lanes(width, [&](auto i, auto l) {
    maxima_z[l] = larger(maxima_z[l], z(i));
    maxima_y[l] = larger(maxima_y[l], y(i));
  });
  const float most_z = maxima_z.fold(larger), most_y = maxima_y.fold(larger);
  for_lanes(width, [&](auto i, auto l) {
    sums_z[l] += math::exp(z(i) - most_z);
    sums_q[l] += math::exp((z(i) - most_z) * colder);
    sums_p[l] += math::exp((y(i) - most_y) * colder);
  });
  const float sum_z = sums_z.sum(), sum_q = sums_q.sum(), sum_p = sums_p.sum(),
              apart = math::log(sum_q) - math::log(sum_p);
  for_lanes(width, [&](auto i, auto l) {
    const float of_y = (y(i) - most_y) * colder, of_z = (z(i) - most_z) * colder;
    divergences[l] += math::divergence_term(math::exp(of_y) / sum_p, math::exp(of_z) / sum_q,
                                            (of_z - of_y) - apart);
  });
  const float z_target = z(target), y_target = y(target);
  if (what == Logits::become_gradient) {
    const auto gradient = [&](float here, float there, float one) {
      const float slope = own == Soft::capped ? math::capped_slope(here, cap) : 1.0F;
      const float q = math::exp((here - most_z) * colder) / sum_q,
                  p = math::exp((there - most_y) * colder) / sum_p;
      return scale * slope *
             (rest * (math::exp(here - most_z) / sum_z - one) + share * t * (q - p));
    };
    for_lanes(width, [&](auto i, auto) { put(x[i], gradient(z(i), y(i), 0)); });
    put(x[target], gradient(z_target, y_target, 1));
  }
  const double from_target = static_cast<double>(math::log(sum_z)) +
                             (static_cast<double>(most_z) - static_cast<double>(z_target));
  const double share_of_divergence = teacher.share * teacher.temperature * teacher.temperature;
  return (1 - teacher.share) * from_target +
         share_of_divergence * static_cast<double>(divergences.sum());
}

}  // namespace

void run(const kernel::CrossEntropy& o, View scratch) {
  const auto& [loss, how, logits_TV, target_T, scale, what, largest, softcap, teacher] = o;
  const auto factor = static_cast<float>(scale), cap = static_cast<float>(softcap);
  const auto rows = logits_TV.extent[0], width = logits_TV.extent[1];
  const auto* target = data<std::int32_t>(target_T);
  const auto room = static_cast<std::int64_t>(scratch.span_bytes() / sizeof(double));
  double* losses = data<double>(scratch);
  const bool add = how == Accumulate::add, as_quanta = loss.dtype == DType::i64;
  double total = add && !as_quanta ? *data<double>(loss) : 0.0;
  std::int64_t quanta = add && as_quanta ? *data<std::int64_t>(loss) : 0;
  by_type(logits_TV.dtype, "cross_entropy", [&]<class T>(T) {
    using enum Soft;
    const auto taught =
        teacher.softcap > 0
            ? (cap > 0 ? taught_row_loss<capped, capped, T> : taught_row_loss<plain, capped, T>)
            : (cap > 0 ? taught_row_loss<capped, plain, T> : taught_row_loss<plain, plain, T>);
    for (std::int64_t first = 0; first < rows; first += room) {
      const auto n = std::min(rows - first, room);
      for_rows(n, width, [&](std::int64_t begin, std::int64_t end) {
        for (auto r = begin; r < end; ++r) {
          T* x = data<T>(logits_TV) + (first + r) * width;
          const auto wanted = target[first + r];
          expect(wanted >= -1 && wanted < width, "cross_entropy: a target is -1 or below V");
          losses[r] = 0;
          if (wanted >= 0 && teacher.logits_TV) {
            losses[r] = taught(x, data<T>(teacher.logits_TV) + (first + r) * width, width, wanted,
                               factor, cap, teacher, what);
          } else if (wanted >= 0) {
            losses[r] = cap > 0 ? capped_row_loss(x, width, wanted, factor, cap, what)
                                : row_loss(x, width, wanted, factor, what);
          } else if (what == Logits::become_gradient) {
            std::fill_n(x, width, T{});
          }
        }
      });
      for (std::int64_t r = 0; r < n; ++r) {
        total += losses[r];
        quanta = fixed::wrapping_sum(quanta, fixed::of_loss(losses[r]));
        if (largest)
          *data<float>(largest) =
              fixed::larger(*data<float>(largest), static_cast<float>(losses[r]));
      }
    }
  });
  if (as_quanta)
    *data<std::int64_t>(loss) = quanta;
  else
    *data<double>(loss) = total;
}

}  // namespace trireme::host
