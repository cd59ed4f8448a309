#include "tests/support/matrix_traffic.hpp"

#include <algorithm>
#include <functional>

#include "kernels/arena.hpp"
#include "lib/matrix/matrix_step.hpp"
#include "lib/shard/matrix_plan.hpp"

namespace trireme {

namespace {

std::int64_t element_bytes(DType t) {
  return static_cast<std::int64_t>(bytes_of(t));
}

std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// This rank's index among those that share a segment.
std::int64_t me(const RankStep& s, bool of_experts) {
  const auto place = s.at.data * s.grid.seq + s.at.seq;
  return of_experts ? place / s.grid.expert % s.experts.ranks : place % s.stage.ranks;
}

// Elements of [begin, end) that a rank holds of a flat array.
std::int64_t held(std::int64_t begin, std::int64_t end, std::int64_t of_array, std::int64_t ranks,
                  std::int64_t rank) {
  const auto shard = of_array / ranks;
  return std::max<std::int64_t>(0,
                                std::min(end, (rank + 1) * shard) - std::max(begin, rank * shard));
}

// Rows and columns of the squares of a matrix.
std::vector<std::int64_t> sides(const RankStep& s, const Matrix& m) {
  if (!s.matrices || !std::holds_alternative<matrix_rule::Shampoo>(s.matrices->rule)) return {};
  return {m.rows, m.rows, m.columns, m.columns};
}

// The parameters of a segment one after another, each with the squares of its matrices. Calls
// f(matrix, where its square begins); returns the length for a number of ranks.
std::int64_t for_each_square(const RankStep& s, const Segment& g, std::size_t k, std::int64_t ranks,
                             const std::function<void(const Matrix&, std::int64_t)>& f) {
  std::int64_t at = 0;
  for (const auto& slot : g.slots) {
    if (slot.begin < g.matrices_begin) continue;
    for (const auto& m : matrices_of(s.spec, slot.param, s.matrices->heads)) {
      f(m, at);
      at += sides(s, m)[k] * sides(s, m)[k];
    }
    at = rounded_up(at, 32);
  }
  return rounded_up(at, 32 * ranks);
}

void for_each_matrix(
    const RankStep& s,
    const std::function<void(const OwnedMatrix&, std::int64_t ranks, std::int64_t me)>& f) {
  if (!s.matrices) return;
  for (const bool of_experts : {false, true}) {
    std::vector<std::size_t> segments;
    for (std::size_t i = 0; i < s.layout.segments.size(); ++i) {
      const auto& g = s.layout.segments[i];
      if (g.matrices_begin < g.elements && g.of_experts == of_experts &&
          s.trainable[g.slots[0].param.index()])
        segments.push_back(i);
    }
    if (segments.empty()) continue;
    const auto ranks = of_experts ? s.experts.ranks : s.stage.ranks;
    const auto plan = plan_matrices(
        s.spec, s.layout, segments, s.matrices->heads, static_cast<int>(ranks),
        [&](const Matrix& m) { return step_flops(s.matrices->rule, m.rows, m.columns); });
    for (const auto& round : plan.rounds)
      for (const auto& m : round.matrices) f(m, ranks, me(s, of_experts));
  }
}

}  // namespace

std::int64_t matrix_traffic(const RankStep& s) {
  std::int64_t sum = 0;
  for_each_matrix(s, [&](const OwnedMatrix& m, std::int64_t ranks, std::int64_t me) {
    const auto& g = s.layout.segments[m.segment];
    const auto sent = [&](std::int64_t all, std::int64_t mine) {
      return m.owner == me ? all - mine : mine;
    };
    sum += element_bytes(s.compute) *
           sent(m.matrix.rows * m.matrix.columns,
                held(m.elements.begin, m.elements.end, g.elements, ranks, me));
    for (std::size_t k = 0; k < sides(s, m.matrix).size(); ++k) {
      const auto n = sides(s, m.matrix)[k] * sides(s, m.matrix)[k];
      std::int64_t begin = 0;
      const auto length = for_each_square(s, g, k, ranks, [&](const Matrix& other, auto at) {
        if (other == m.matrix) begin = at;
      });
      sum += element_bytes(s.master) * sent(n, held(begin, begin + n, length, ranks, me));
    }
  });
  return sum;
}

double muon_flops(const RankStep& s) {
  double sum = 0;
  for_each_matrix(s, [&](const OwnedMatrix& m, std::int64_t, std::int64_t me) {
    const auto small = static_cast<double>(std::min(m.matrix.rows, m.matrix.columns)),
               large = static_cast<double>(std::max(m.matrix.rows, m.matrix.columns));
    if (m.owner == me) sum += 5 * (4 * small * small * large + 2 * small * small * small);
  });
  return sum;
}

std::size_t matrix_state_bytes(const RankStep& s, const Segment& g) {
  if (g.matrices_begin == g.elements) return 0;
  const auto ranks = s.of(g).ranks;
  const auto bytes = [&](std::int64_t elements) {
    const auto n = static_cast<std::size_t>(elements * element_bytes(s.master));
    return (n + Arena::granule - 1) / Arena::granule * Arena::granule;
  };
  const auto block = [&](std::int64_t elements) { return bytes(elements / ranks); };
  // Momentum on the last rank, whose shard has most of the matrices.
  auto sum = bytes(std::min(g.elements - g.matrices_begin, g.elements / ranks));
  const auto any = matrices_of(s.spec, g.slots.back().param, s.matrices->heads)[0];
  for (std::size_t k = 0; k < sides(s, any).size(); ++k)
    sum += block(for_each_square(s, g, k, ranks, [](const Matrix&, std::int64_t) {}));
  return sum;
}

}  // namespace trireme
