#include "lib/ops/attention.hpp"

#include <algorithm>
#include <cmath>

#include "lib/ops/repeat_heads.hpp"
#include "lib/ops/rope_scaling.hpp"
#include "lib/ops/rotary.hpp"
#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 2, T = 7;
constexpr double amplitude = 1.5;  // of q, k, v; dy is below 1

// The bounds of contract_attention_test.cpp, with rows' lengths and a column's sum of p at their
// largest; and what backward gets from forward is off: lse, and o, whose dot product with dy is in
// every ds.
OpCase::Slack slack(const ops::Heads& h) {
  constexpr auto t = DType::f32;
  const double u = roundoff(t), d = static_cast<double>(h.dim);
  const double row = amplitude * std::sqrt(d), dy_row = std::sqrt(d), scale = 1 / std::sqrt(d);
  const double most = scale * row * row, score = sum_error(t, h.dim, most);
  const double given = score + 8 * u * (most + std::log(static_cast<double>(T)) + 1);
  const double p = given + 2 * score + sum_error(t, T, 1) + given - score;
  const double o = p * amplitude + sum_error(t, T, amplitude);

  const double dot = sum_error(t, h.dim, row * dy_row) + d * o;
  const double ds = scale * 2 * row * dy_row;
  const double each_ds = (p + 4 * u) * ds + scale * 2 * dot;
  const auto terms = T * (h.query / h.kv + 1);
  const double column = static_cast<double>(T * h.query / h.kv);
  const double dq = amplitude * (each_ds + sum_error(t, terms, ds));
  return {o, {column * std::max(dq, p + sum_error(t, terms, 1))}, {}};
}

OpCase attention(std::string name, const ops::Heads& h, std::int64_t window = 0) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) { return std::make_unique<ops::Attention>(h, 0, window); };
  c.in = {random_numbers({B, T, h.packed()}, 1, amplitude)};
  c.grad_out = random_numbers({B, T, h.query * h.dim}, 2);
  c.slack = slack(h);
  return c;
}

// By what o and lse are off, in each term exp(sink - lse) do.o, of which the first is at most 1.
OpCase with_sinks(OpCase c, const ops::Heads& h, std::int64_t window) {
  c.name += " with sinks";
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Attention>(h, 0, window, ParamId{0});
  };
  c.params = {random_numbers({h.query}, 3, amplitude)};
  c.rows = B * T;
  const double d = static_cast<double>(h.dim), o = c.slack.y;
  const double dot = sum_error(DType::f32, h.dim, amplitude * d) + d * o;
  c.slack.params = {static_cast<double>(B * T) * (dot + amplitude * d * 4 * o) +
                    sum_error(DType::f32, B * T, static_cast<double>(B * T) * amplitude * d)};
  return c;
}

OpCase rotary(std::string name, const ops::Heads& h, std::int64_t t0) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend& b, DType compute) {
    const auto frequencies = ops::RotaryFrequencies{}.of_pairs(h.dim);
    return std::make_unique<ops::Rotary>(
        h, ops::rotary_table(b, T + 4, frequencies, 1, wide(compute)));
  };
  c.in = {random_numbers({B, T, h.packed()}, 1, amplitude)};
  c.grad_out = random_numbers({B, T, h.packed()}, 2);
  c.t0 = t0;
  const double turned = 5 * roundoff(DType::f32) * 2 * amplitude;  // the table is rounded too
  c.slack = {turned, {turned}, {}};
  return c;
}

// A document of three tokens, one of one, and what is left; a whole sample, a token each.
OpCase in_documents(OpCase c) {
  c.name += " within documents";
  c.starts = {0, 0, 0, 3, 4, 4, 4, 0, 1, 2, 3, 4, 5, 6};
  return c;
}

// Copies are exact; the adjoint adds as many gradients as a head has copies.
OpCase repeat_heads(std::string name, const ops::Heads& h) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) { return std::make_unique<ops::RepeatHeads>(h); };
  c.in = {random_numbers({B, T, h.packed()}, 1)};
  c.grad_out = random_numbers({B, T, 3 * h.query * h.dim}, 2);
  const auto copies = h.query / h.kv;
  c.slack = {0, {sum_error(DType::f32, copies, static_cast<double>(copies))}, {}};
  return c;
}

}  // namespace

std::vector<OpCase> attention_cases() {
  return {attention("attention", {3, 3, 6}),
          attention("attention with shared keys", {4, 2, 6}),
          attention("attention with one key head", {3, 1, 8}),
          rotary("rotary", {3, 3, 6}, 0),
          rotary("rotary from the third position on", {4, 2, 6}, 3),
          attention("attention in a window", {4, 2, 6}, 3),
          in_documents(attention("attention in a window", {3, 3, 6}, 2)),
          with_sinks(attention("attention", {4, 2, 6}), {4, 2, 6}, 0),
          with_sinks(in_documents(attention("attention in a window", {3, 3, 6})), {3, 3, 6}, 3),
          in_documents(attention("attention", {3, 3, 6})),
          in_documents(attention("attention with shared keys", {4, 2, 6})),
          in_documents(rotary("rotary", {4, 2, 6}, 0)),
          repeat_heads("repeated heads", {6, 2, 4})};
}

}  // namespace trireme
