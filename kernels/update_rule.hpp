#pragma once
// Optimizer rules as values: each rule is a struct with its hyperparameters. The formulas are
// implemented twice:
//
//   kernels/math/update.hpp    in f32, for host and device
//   kernels/ref/optimizer.cpp  in double, from the papers
//
// w is a weight, and g is its gradient times UpdateFactors::scale. All rules use decoupled weight
// decay (Loshchilov, Hutter 2019): w -= lr * (step + decay * w). The rule computes `step` from g
// and from arrays that hold one number for each weight, initially zero. An array has the same name
// as its group in checkpoints. Two rules may use the same array name only if the arrays have the
// same meaning.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace trireme {

// Parameters that every rule receives.
struct UpdateFactors {
  double lr = 0, decay = 0;
  double scale = 1;        // factor on the gradient
  std::int64_t count = 1;  // number of updates to these weights, this one included
};

namespace rule {

// Stochastic gradient descent: step = g.
struct Sgd {
  static constexpr const char* name = "sgd";
  static constexpr std::array<std::string_view, 0> arrays{};
};

// SGD with momentum: m = momentum m + g, step = m. With `nesterov`, step = g + momentum m
// (Sutskever et al. 2013).
struct Momentum {
  static constexpr const char* name = "momentum";
  static constexpr std::array<std::string_view, 1> arrays{"momentum"};
  double momentum = 0.9;
  bool nesterov = false;
};

// AdamW (Loshchilov, Hutter 2019):
// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
// step = m / (1 - beta1^count) / (sqrt(v / (1 - beta2^count)) + eps)
struct AdamW {
  static constexpr const char* name = "adamw";
  static constexpr std::array<std::string_view, 2> arrays{"moment1", "moment2"};
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
};

// Lion (Chen et al. 2023): step = sign(beta1 m + (1 - beta1) g) with sign(0) = 0, then m = beta2 m
// + (1 - beta2) g.
struct Lion {
  static constexpr const char* name = "lion";
  static constexpr std::array<std::string_view, 1> arrays{"moment1"};
  double beta1 = 0.9, beta2 = 0.99;
};

}  // namespace rule

using UpdateRule = std::variant<rule::Sgd, rule::Momentum, rule::AdamW, rule::Lion>;
inline constexpr std::size_t most_update_arrays = 2;

inline std::span<const std::string_view> arrays_of(const UpdateRule& rule) {
  return std::visit([](const auto& r) { return std::span<const std::string_view>(r.arrays); },
                    rule);
}

}  // namespace trireme
