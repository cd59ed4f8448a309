#pragma once
// What an optimizer does to one weight, as a value: a rule with the numbers that are its own.
//
//   kernels/math/update.hpp    the formulas in f32, for host and device
//   kernels/ref/optimizer.cpp  in double, from the papers
//
// w is the weight, g its gradient times UpdateFactors::scale. Weight decay stands apart from the
// gradient in all of them (Loshchilov, Hutter 2019): w -= lr * (step + decay * w), where the rule
// makes the step from g and from arrays that it keeps of each weight, zero at first. An array's
// name is that of its group in checkpoints; only what means the same may have one name.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace trireme {

// What every rule is given.
struct UpdateFactors {
  double lr = 0, decay = 0;
  double scale = 1;        // of the gradient
  std::int64_t count = 1;  // of updates to these weights, this one included
};

namespace rule {

// step = g
struct Sgd {
  static constexpr const char* name = "sgd";
  static constexpr std::array<std::string_view, 0> arrays{};
};

// m = momentum m + g; step = m, or with Nesterov's look ahead g + momentum m (Sutskever et al.
// 2013).
struct Momentum {
  static constexpr const char* name = "momentum";
  static constexpr std::array<std::string_view, 1> arrays{"momentum"};
  double momentum = 0.9;
  bool nesterov = false;
};

// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
// step = m / (1 - beta1^count) / (sqrt(v / (1 - beta2^count)) + eps)
struct AdamW {
  static constexpr const char* name = "adamw";
  static constexpr std::array<std::string_view, 2> arrays{"moment1", "moment2"};
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
};

// step = sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g; sign(0) = 0 (Chen et al.
// 2023).
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
