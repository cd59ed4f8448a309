#include "lib/matrix/newton_schulz.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/operations.hpp"
#include "lib/matrix/scaling.hpp"
#include "lib/matrix/scratch.hpp"

namespace trireme {

NewtonSchulz newton_schulz(MuonPolynomials set) {
  static constexpr QuinticStep once{3.4445, -4.7750, 2.0315};
  static constexpr std::array<QuinticStep, 5> jordan{once, once, once, once, once};
  static constexpr std::array<QuinticStep, 5> polar_express{
      {{8.156554524902461, -22.48329292557795, 15.878769915207462},
       {4.042929935166739, -2.808917465908714, 0.5000178451051316},
       {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
       {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
       {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}};
  if (set == MuonPolynomials::polar_express) return {polar_express, 1.02, 1e-6};
  return {jordan, 1, 1e-7};
}

MatrixScratch newton_schulz_scratch(std::int64_t rows, std::int64_t columns) {
  const auto small = std::min(rows, columns);
  return {rows * columns + 3 * small * small, scaling_scratch(rows, columns)};
}

double newton_schulz_flops(std::int64_t rows, std::int64_t columns, std::size_t steps) {
  const auto small = static_cast<double>(std::min(rows, columns)),
             large = static_cast<double>(std::max(rows, columns));
  return static_cast<double>(steps) * (4 * small * small * large + 2 * small * small * small);
}

void orthogonalize(Backend& b, const NewtonSchulz& method, View x_MN, View compute, View wide,
                   SumOrder order) {
  const auto rows = x_MN.extent[0], columns = x_MN.extent[1], small = std::min(rows, columns);
  Scratch room(compute);
  View now_MN = x_MN, next_MN = room.take({rows, columns});
  // The last step writes x_MN.
  if (method.steps.size() % 2 == 1) std::swap(now_MN, next_MN);
  normalize_to(b, now_MN, x_MN, method.factor, method.eps, Scratch(wide));
  const View a_KK = room.take({small, small}), f_KK = room.take({small, small}),
             p_KK = room.take({small, small});
  const auto wider = [&](const View& v) { return rows > columns ? v.transposed() : v; };
  const auto multiply = [&](View c, ConstView x, ConstView y) {
    b.put(Queue::compute, kernel::Matmul{.c_MN = c, .a_MK = x, .b_KN = y, .order = order});
  };
  // x = p x with p = a I + x x' (b I + c x x'). Passes over whole matrices would take a large part
  // of the time where products in bf16 are fast.
  for (const auto& step : method.steps) {
    const View now = wider(now_MN);
    multiply(a_KK, now, now.transposed());
    scale_to(b, f_KK, a_KK, step.c, Scratch(wide));
    add_to_diagonal(b, f_KK, step.b, Scratch(wide));
    multiply(p_KK, a_KK, f_KK);
    add_to_diagonal(b, p_KK, step.a, Scratch(wide));
    multiply(wider(next_MN), p_KK, now);
    std::swap(now_MN, next_MN);
  }
}

}  // namespace trireme
