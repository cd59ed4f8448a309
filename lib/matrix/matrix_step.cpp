#include "lib/matrix/matrix_step.hpp"

#include "lib/matrix/shampoo.hpp"

namespace trireme {
namespace {

template <class... Case>
struct Cases : Case... {
  using Case::operator()...;
};
template <class... Case>
Cases(Case...) -> Cases<Case...>;

}  // namespace

MatrixScratch step_scratch(const MatrixRule& rule, std::int64_t rows, std::int64_t columns) {
  return std::visit(
      Cases{[&](const matrix_rule::Muon&) { return newton_schulz_scratch(rows, columns); },
            [&](const matrix_rule::Shampoo&) { return shampoo_scratch(rows, columns); }},
      rule);
}

double step_flops(const MatrixRule& rule, std::int64_t rows, std::int64_t columns) {
  return std::visit(
      Cases{[&](const matrix_rule::Muon& r) {
              return newton_schulz_flops(rows, columns, newton_schulz(r.polynomials).steps.size());
            },
            [&](const matrix_rule::Shampoo& r) { return shampoo_flops(r, rows, columns); }},
      rule);
}

void matrix_step(Backend& b, const MatrixRule& rule, const WholeMatrix& matrix, View compute,
                 View wide, SumOrder order) {
  std::visit(
      Cases{
          [&](const matrix_rule::Muon& r) {
            orthogonalize(b, newton_schulz(r.polynomials), matrix.x_MN, compute, wide, order);
          },
          [&](const matrix_rule::Shampoo& r) { shampoo_step(b, r, matrix, compute, wide, order); }},
      rule);
}

}  // namespace trireme
