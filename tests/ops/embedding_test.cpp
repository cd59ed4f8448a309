#include "lib/ops/embedding.hpp"

#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 3, T = 5, C = 19;

// One id stands often, one never, both ends of the vocabulary once.
OpCase embedding() {
  OpCase c;
  c.name = "embedding";
  c.make = [](Backend&, DType compute) {
    return std::make_unique<ops::Embedding>(ParamId{0}, C, compute);
  };
  c.in = {{{B, T}, {}, {3, 0, 3, 3, 7, 22, 3, 11, 3, 1, 3, 3, 2, 9, 3}}};
  c.params = {random_numbers({23, C}, 1)};
  c.grad_out = random_numbers({B, T, C}, 2);
  c.rows = B * T;
  c.slack = {0, {0}, {sum_error(DType::f32, B * T, B * T)}};
  return c;
}

// The rows that gradients are summed over are samples.
OpCase positions(std::string name, std::int64_t table, std::int64_t t0) {
  OpCase c;
  c.name = std::move(name);
  c.make = [](Backend&, DType) { return std::make_unique<ops::AddPositions>(ParamId{0}); };
  c.in = {random_numbers({B, T, C}, 1)};
  c.params = {random_numbers({table, C}, 2)};
  c.grad_out = random_numbers({B, T, C}, 3);
  c.rows = B;
  c.t0 = t0;
  c.slack = {0, {0}, {sum_error(DType::f32, B, B)}};
  return c;
}

// A position comes several times in a sample, so the rows are tokens.
OpCase positions_in_documents() {
  auto c = positions("positions within documents", T + 4, 0);
  c.starts = {0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 2, 2, 4};
  c.rows = B * T;
  c.slack.params = {sum_error(DType::f32, B * T, B * T)};
  return c;
}

}  // namespace

std::vector<OpCase> embedding_cases() {
  return {embedding(), positions("positions", T, 0), positions("some of the positions", T + 4, 0),
          positions("positions from the third on", T + 4, 3), positions_in_documents()};
}

}  // namespace trireme
