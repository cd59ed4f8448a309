#pragma once
// What searches are tried on: a small model, a machine and a number of ranks, drawn at random.
#include <fmt/format.h>

#include <cmath>

#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/tiny.hpp"

namespace trireme::test {

struct DrawnSearch {
  PlanInput in;
  MachineModel machine;
  int ranks = 1;

  DryTarget target() const { return roomy_target(machine.backend == "host"); }
  std::string text() const {
    const auto& m = in.setup.model;
    return fmt::format(
        "{} of {} ranks a node, {} ranks; {} layers, {} wide, {}/{} heads, {} of {} experts but in "
        "{}, {} words, context {}, batch {}, exact_chunk {}",
        machine.backend, machine.ranks_of_node, ranks, m.layers, m.width, m.heads, m.kv_heads,
        m.experts_per_token, m.experts, fmt::join(m.dense_layers, " "), m.vocab, m.max_context,
        in.train.batch, in.setup.exact_chunk);
  }
};

// Rates of 10^low to 10^high.
inline double drawn_rate(Draw& d, double low, double high) {
  return std::pow(10.0, d.real(low, high));
}

inline MachineModel drawn_machine(Draw& d, const std::string& backend) {
  MachineModel m;
  m.file = "drawn.toml";
  m.name = "drawn";
  m.backend = backend;
  m.measured = true;
  m.ranks_of_node = d.between(1, 9);
  m.memory_bandwidth = drawn_rate(d, 8, 11);
  m.launch = drawn_rate(d, -9, -5);
  if (d.once_in(2)) m.operation = drawn_rate(d, -9, -6);
  m.agreement = drawn_rate(d, -7, -5);
  m.near = {.latency = drawn_rate(d, -8, -4), .bandwidth = drawn_rate(d, 7, 11)};
  m.far = {.latency = drawn_rate(d, -8, -4), .bandwidth = drawn_rate(d, 6, 10)};
  if (d.once_in(2)) m.far.shared_by = d.between(1, m.ranks_of_node);
  const double flops = drawn_rate(d, 8, 11);
  for (const auto t : {DType::f32, DType::bf16}) {
    m.products.push_back({.dtype = t, .m = {1}, .n = {1}, .k = {1}, .flops = {flops}});
    for (const auto direction : {Direction::forward, Direction::backward})
      m.attention.push_back({t, direction, 4, {1}, {flops / 2}});
  }
  return m;
}

inline ModelConfig drawn_model(Draw& d) {
  auto c = d.one_of({tiny_gpt2(), tiny_llama(), tiny_qwen(), tiny_mixture(), tiny_sigmoid_mixture(),
                     tiny_gpt_oss()});
  c.layers = d.between(1, 7);
  if (c.experts > 0) {
    c.experts = d.between(1, 7);
    c.experts_per_token = d.between(1, c.experts);
    c.expert_width = d.between(4, 40);
    c.dense_layers.clear();
    for (std::int64_t l = 0; l < c.layers; ++l)
      if (d.once_in(3)) c.dense_layers.push_back(l);
  }
  c.kv_heads = d.between(1, 3);
  c.heads = c.kv_heads * d.between(1, 3);
  if (c.positions == Positions::learned) c.kv_heads = c.heads;
  c.head_dim = 4;
  c.width = 4 * c.heads;
  c.ffn_width = d.between(4, 40);
  c.vocab = d.one_of<std::int64_t>({3, 19, 500});
  c.max_context = d.one_of<std::int64_t>({4, 6, 12, 24});
  if (d.once_in(2)) {
    c.window = d.between(1, 12);
    for (std::int64_t l = 0; l < c.layers; ++l)
      if (d.once_in(2)) c.window_layers.push_back(l);
  }
  for (std::int64_t l = 0; c.positions == Positions::rotary && l < c.layers; ++l)
    if (d.once_in(4)) c.nope_layers.push_back(l);
  if (d.once_in(3)) c.residual_scale = c.logit_scale = c.embedding_scale = 0.5;
  return completed(c);
}

inline DrawnSearch drawn_search(Draw& d) {
  DrawnSearch s;
  s.machine = drawn_machine(d, d.once_in(2) ? "cuda" : "host");
  s.in.transport = s.machine.backend == "cuda" ? TransportKind::device : TransportKind::host;
  auto& setup = s.in.setup;
  setup.model = drawn_model(d);
  if (d.once_in(3)) setup.dropout = 0.1;
  setup.compute = d.once_in(3) ? DType::bf16 : DType::f32;
  setup.optimizer.name = d.one_of({OptimizerKind::adamw, OptimizerKind::lion, OptimizerKind::sgd,
                                   OptimizerKind::muon, OptimizerKind::shampoo});
  if (d.once_in(3)) setup.optimizer.no_decay = {fmt::format("blocks.{}.*", setup.model.layers - 1)};
  if (s.machine.backend == "host" && d.once_in(4)) setup.exact_chunk = 2;
  if (d.once_in(2)) {
    setup.balance = Balance::sample;
    setup.balance_weight = 0.01;
  }
  if (setup.exact_chunk == 0 && d.once_in(4)) {
    setup.adapter.rank = d.between(1, 3);
    setup.attention = AttentionSpan::document;
    if (d.once_in(2)) setup.objective = PreferenceTraining{Dpo{}};
  }
  setup.zero.prefetch = d.between(1, 3);
  setup.zero.scatters = d.between(1, 3);
  s.in.train = {.batch = d.between(1, 4) * d.one_of<std::int64_t>({1, 2, 6, 12, 24}),
                .microbatch = 1,
                .steps = d.between(1, 3)};
  s.in.evaluation = d.once_in(2) ? PlanEvaluation::included : PlanEvaluation::left_out;
  s.in.snapshot = d.once_in(2) ? PlanSnapshot::included : PlanSnapshot::left_out;
  s.ranks = static_cast<int>(d.between(1, 12));
  return s;
}

// At most so many of the ways to run it.
inline std::vector<RunChoice> drawn_choices(Draw& d, const DrawnSearch& s, std::int64_t most) {
  auto all = choices_of(s.in, s.ranks, 8);
  std::vector<RunChoice> some;
  for (; !all.empty() && std::ssize(some) < most;) {
    const auto i = d.between(0, std::ssize(all) - 1);
    some.push_back(all[static_cast<std::size_t>(i)]);
    all.erase(all.begin() + i);
  }
  return some;
}

}  // namespace trireme::test
