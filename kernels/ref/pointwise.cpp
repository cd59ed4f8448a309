// GELU in its tanh form (Hendrycks, Gimpel 2016) is x/2 (1 + tanh u) with u = sqrt(2/pi) (x +
// 0.044715 x^3). SwiGLU is silu(gate) up with silu(x) = x / (1 + exp(-x)), and GeGLU is gelu(gate)
// up (Shazeer 2020). The clamped SwiGLU of gpt-oss is g / (1 + exp(-1.702 g)) (u + 1), where g =
// min(gate, 7) and u = max(-7, min(up, 7)).
#include <cmath>
#include <numbers>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

const double gelu_factor = std::sqrt(2 / std::numbers::pi);
constexpr double gelu_cubic = 0.044715;

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(gelu_factor * (x + gelu_cubic * x * x * x)));
}

double gelu_slope(double x) {
  const double tanh_u = std::tanh(gelu_factor * (x + gelu_cubic * x * x * x));
  const double du = gelu_factor * (1 + 3 * gelu_cubic * x * x);
  // If tanh(u) is 1 or -1, `tail` is 0. x * du may then be infinite, and the product NaN.
  const double tail = 1 - tanh_u * tanh_u;
  return 0.5 * (1 + tanh_u) + (tail == 0 ? 0.0 : 0.5 * x * tail * du);
}

// Activations as types, so that the compiler can inline their functions into loops. with_formula()
// calls f with the type of an activation.
struct GeluFormula {
  static double value(double x) { return gelu_of(x); }
  static double slope(double x) { return gelu_slope(x); }
};
template <class F>
void with_formula(Activation a, const F& f) {
  switch (a) {
    case Activation::gelu:
      return f(GeluFormula{});
  }
}

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

constexpr double clamp_at = 7, clamped_gain = 1.702;

// Returns the gate function at x. opened_slope() returns the derivative of the gate function.
double opened(GateFunction f, double x) {
  if (f == GateFunction::gelu) return gelu_of(x);
  if (f == GateFunction::silu) return x * logistic(x);
  if (x > clamp_at) x = clamp_at;
  return x * logistic(clamped_gain * x);
}
double opened_slope(GateFunction f, double x) {
  if (f == GateFunction::gelu) return gelu_slope(x);
  if (f == GateFunction::clamped_silu && x > clamp_at) return 0;
  const double gain = f == GateFunction::silu ? 1 : clamped_gain, open = logistic(gain * x);
  return open * (1 + gain * x * (1 - open));
}

// Returns the factor of the gate function. passed_slope() returns the derivative of the factor.
double passed(GateFunction f, double up) {
  if (f != GateFunction::clamped_silu) return up;
  return (up > clamp_at ? clamp_at : up < -clamp_at ? -clamp_at : up) + 1;
}
double passed_slope(GateFunction f, double up) {
  return f == GateFunction::clamped_silu && std::abs(up) > clamp_at ? 0 : 1;
}

// Computes y[i] = f(x[i]...) over dense views of one type and size.
template <class T, class F, class... In>
void map(const View& y_N, const F& f, const In&... x_N) {
  expect(y_N.dense() && (x_N.dense() && ...), "a pointwise kernel takes dense views");
  expect(((x_N.count() == y_N.count()) && ...), "a pointwise kernel takes views of one size");
  expect(((x_N.dtype == y_N.dtype) && ...), "a pointwise kernel takes views of one type");
  auto* y = reinterpret_cast<T*>(y_N.data);
  const auto n = y_N.count();
  for (std::int64_t i = 0; i < n; ++i)
    store(y[i], f(load(reinterpret_cast<const T*>(x_N.data)[i])...));
}

template <class T>
void rotary_as(const kernel::Rotary& o) {
  const Elements<T> x(o.x_BTHD);
  const Elements<const Wide<T>> table(o.table_T2E);
  const Elements<const std::int32_t> position(o.position_BT);
  const auto [B, Tokens, H, D, unused5, unused6] = o.x_BTHD.extent;
  const auto E = D / 2;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < Tokens; ++t)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t e = 0; e < E; ++e) {
          const std::int64_t row = position ? position.at(b, t) : t;
          const double c = table(row, 0, e), s0 = table(row, 1, e);
          const double s = o.direction == Direction::forward ? s0 : -s0;
          const double x1 = x(b, t, h, e), x2 = x(b, t, h, E + e);
          x.put(x1 * c - x2 * s, b, t, h, e);
          x.put(x2 * c + x1 * s, b, t, h, E + e);
        }
}

template <class T>
void swiglu_as(const kernel::Swiglu& o) {
  const Elements<T> y(o.y_TF);
  const Elements<const T> gate_up(o.gate_up_T2F);
  const Elements<const Wide<T>> weight(o.weight_T);
  for (std::int64_t t = 0; t < o.y_TF.extent[0]; ++t)
    for (std::int64_t f = 0; f < o.y_TF.extent[1]; ++f) {
      const double gate = gate_up(t, 0, f), up = gate_up(t, 1, f);
      y.put((weight ? weight(t) : 1) * opened(o.gate, gate) * passed(o.gate, up), t, f);
    }
}

template <class T>
void swiglu_grad_as(const kernel::SwigluGrad& o) {
  const Elements<T> dgate_up(o.dgate_up_T2F);
  const Elements<const T> dy(o.dy_TF), gate_up(o.gate_up_T2F);
  const Elements<const Wide<T>> weight(o.weight_T);
  const Elements<Wide<T>> dweight(o.dweight_T);
  for (std::int64_t t = 0; t < o.dy_TF.extent[0]; ++t) {
    double sum = 0;
    for (std::int64_t f = 0; f < o.dy_TF.extent[1]; ++f) {
      const double gate = gate_up(t, 0, f), up = gate_up(t, 1, f);
      const double d = (weight ? weight(t) : 1) * dy(t, f), open = opened(o.gate, gate);
      const double factor = passed(o.gate, up);
      sum += dy(t, f) * open * factor;
      dgate_up.put(d * factor * opened_slope(o.gate, gate), t, 0, f);
      dgate_up.put(d * open * passed_slope(o.gate, up), t, 1, f);
    }
    if (dweight) dweight.put(sum, t);
  }
}

bool drops(const DropoutKey& key, std::uint64_t sample, std::uint64_t element) {
  return unit_float(philox4x32(key.key, element / 4, sample)[element % 4]) < key.p;
}

template <class T>
void dropout_as(const kernel::Dropout& o) {
  const auto& [y_BTC, x_BTC, skip_BTC, key, rows] = o;
  const Elements<T> y(y_BTC);
  const Elements<const T> x(x_BTC), skip(skip_BTC);
  const Elements<const std::int32_t> position_T(rows.position_T);
  const auto* samples = reinterpret_cast<const std::int64_t*>(rows.sample_B.data);
  const double scale = 1 / (1 - static_cast<double>(key.p));
  const auto width = x_BTC.extent[2];
  for (std::int64_t b = 0; b < x_BTC.extent[0]; ++b)
    for (std::int64_t t = 0; t < x_BTC.extent[1]; ++t)
      for (std::int64_t c = 0; c < width; ++c) {
        const auto position = rows.position_T ? std::int64_t{position_T.at(t)} : rows.t0 + t;
        const auto element = static_cast<std::uint64_t>(position * width + c);
        const bool keep =
            key.p == 0 || !drops(key, static_cast<std::uint64_t>(samples[b]), element);
        y.put((skip ? skip(b, t, c) : 0.0) + (keep ? x(b, t, c) * scale : 0.0), b, t, c);
      }
}

}  // namespace

void run(const kernel::Rotary& o) {
  with_compute_type(o.x_BTHD.dtype, [&](auto t) { rotary_as<decltype(t)>(o); });
}

void run(const kernel::Activate& o) {
  with_formula(o.activation, [&]<class Formula>(Formula) {
    with_compute_type(o.x_N.dtype, [&](auto t) { map<decltype(t)>(o.y_N, Formula::value, o.x_N); });
  });
}

void run(const kernel::ActivateGrad& o) {
  with_formula(o.activation, [&]<class Formula>(Formula) {
    with_compute_type(o.x_N.dtype, [&](auto t) {
      map<decltype(t)>(
          o.dx_N, [](double d, double at) { return d * Formula::slope(at); }, o.dy_N, o.x_N);
    });
  });
}

void run(const kernel::Scale& o) {
  with_compute_type(o.x_N.dtype, [&](auto t) {
    map<decltype(t)>(
        o.x_N, [&](double x) { return o.factor * x; }, o.x_N);
  });
}

void run(const kernel::Swiglu& o) {
  with_compute_type(o.y_TF.dtype, [&](auto t) { swiglu_as<decltype(t)>(o); });
}

void run(const kernel::SwigluGrad& o) {
  with_compute_type(o.dy_TF.dtype, [&](auto t) { swiglu_grad_as<decltype(t)>(o); });
}

void run(const kernel::Dropout& o) {
  with_compute_type(o.x_BTC.dtype, [&](auto t) { dropout_as<decltype(t)>(o); });
}

}  // namespace trireme::ref
