#include "tests/support/parity_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "lib/base/rng.hpp"
#include "tests/support/parity_factors.hpp"

namespace trireme::test {

static std::string text(const ZeroConfig& z) {
  auto s = fmt::format("zero{}", z.stage);
  if (z.stage == 3) {
    if (z.gather == ZeroCadence::step) s += "_gather_step";
    if (z.reduce == ZeroCadence::step) s += "_reduce_step";
  }
  if (z.shard) s += fmt::format("_shard{}", z.shard);
  if (z.prefetch != 1 || z.scatters != 1) s += fmt::format("_ahead{}_{}", z.prefetch, z.scatters);
  return s;
}

static const char* word_of(const ParityCase& c) {
  if (c.optimizer == OptimizerKind::adamw) return "adamw";
  if (c.optimizer == OptimizerKind::lion) return "lion";
  if (c.momentum == 0) return "sgd";
  return c.nesterov ? "nesterov" : "momentum";
}

std::string name_of(const ParityCase& c) {
  return fmt::format(
      "pipe{}_data{}_seq{}{}_{}_{}_m{}{}{}{}{}_{}{}{}", c.grid.pipe, c.grid.data, c.grid.seq,
      c.grid.expert > 1 ? fmt::format("_expert{}", c.grid.expert) : "", c.flavour, text(c.zero),
      c.microbatches,
      c.offload == Offload::inputs      ? "_offload"
      : c.recompute == Recompute::block ? "_recompute"
                                        : "",
      c.chunk_tokens > 0 ? fmt::format("_tokens{}", c.chunk_tokens) : "",
      (c.dropout > 0 ? std::string("_dropout") : "") +
          (c.adapter_rank > 0 ? fmt::format("_adapter{}", c.adapter_rank) : "") +
          (c.base != BaseType::compute ? fmt::format("_{}", trireme::name_of(c.base)) : ""),
      std::string(c.documents ? "_documents" : "") + (c.teacher ? "_teacher" : ""), word_of(c),
      c.freeze.empty() ? "" : fmt::format("_freeze{}", c.freeze.size()),
      (c.backend == "ref" ? "" : "_" + c.backend) + (c.exact_chunk > 0 ? "_exact" : "") +
          (c.clip ? "_clip" : "") + (c.stage_layers.empty() ? "" : "_uneven") +
          (c.schedule == ScheduleKind::zero_bubble   ? "_zero_bubble"
           : c.schedule == ScheduleKind::zbv         ? "_zbv"
           : c.schedule == ScheduleKind::interleaved ? fmt::format("_chunks{}", c.chunks)
                                                     : "") +
          (c.reduce == DType::bf16 ? "_wire16" : "") +
          (c.transport == TransportKind::device ? "_between_devices" : ""));
}

ModelConfig parity_model(const ParityCase& p) {
  ModelConfig c;
  c.layers = p.layers;
  c.width = 24;
  c.heads = 12;
  c.vocab = 29;
  c.context = p.context > 0 ? p.context : p.size;
  c.ffn_width = 40;
  if (p.flavour != "gpt2") c.kv_heads = 3;
  const bool two = p.flavour == "two" || p.flavour == "two_experts";
  if (p.flavour == "one" || two) {
    c.heads = p.flavour == "one" ? 1 : 2;
    c.kv_heads = 1;
    c.head_dim = p.head_dim;
  }
  if (p.flavour == "gqa" || p.flavour == "sigmoid") c.window = 3;
  c.attention_sinks = two;
  if (two) {
    c.window = 5;
    c.window_layers = {0, 2, 5};
  }
  const bool mixture = p.flavour == "mixture" || p.flavour == "two_experts",
             sigmoid = p.flavour == "sigmoid";
  const bool olmo2 = p.flavour == "olmo2";
  if (olmo2) {
    c.norm_place = NormPlace::after;
    c.qk_norm = true;
    c.qk_norm_over = QkNormOver::width;
  }
  const bool gemma2 = p.flavour == "gemma2", gemma3 = p.flavour == "gemma3";
  if (p.flavour == "llama" || olmo2 || gemma2 || gemma3 || two || mixture || sigmoid) {
    c.norm = NormKind::rms;
    c.bias = false;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
    c.tied = false;
  }
  if (gemma2 || gemma3) {
    c.norm_place = NormPlace::both;
    c.activation = ActivationKind::geglu;
    c.tied = true;
    c.scale_embedding = true;
    c.attention_scale = 0.6;
    c.window = 5;
    c.window_layers = {0, 2, 4, 6};
  }
  if (gemma2) {
    c.attention_softcap = 0.5;
    c.logit_softcap = 0.7;
  }
  if (gemma3) {
    c.qk_norm = true;
    c.rope_theta = 500;
    c.window_rope_theta = 30;
  }
  if (p.flavour == "qwen") {
    c.norm = NormKind::rms;
    c.bias = false;
    c.qkv_bias = true;
    c.qk_norm = true;
    c.head_dim = 4;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
    c.rope_theta = 100;
    c.rope_scaling = RopeScaling::llama3;
    c.rope_factor = 8;
    c.rope_original_context = 16;
    c.window = 5;
    c.window_layers = {1, 2, 6};
    c.attention_sinks = true;
  }
  if (mixture) {
    c.experts = 5;
    c.experts_per_token = 2;
    c.shared_expert_width = 12;
    c.shared_expert_gate = true;
    c.norm_topk = false;
    c.dense_layers = {0, 4};
  }
  if (sigmoid) {
    c.experts = 6;
    c.experts_per_token = 3;
    c.router = RouterScores::sigmoid;
    c.norm_place = NormPlace::both;
  }
  if (mixture || sigmoid) {
    c.expert_width = 16;
    c.attention_sinks = true;
  }
  // Norms behind divide by what is small when a model begins, and its rounding by that, too.
  if (norms_after(c)) c.norm_eps = 0.01;
  c.dropout = p.dropout;
  c.adapter.rank = p.adapter_rank;
  c.adapter.base = p.base;
  c.adapter.dropout = p.dropout;
  c.recompute = p.recompute;
  c.offload = p.offload;
  if (p.dropout > 0) c.max_context = p.size + 5;  // more than samples have tokens
  return completed(c);
}

static ModelConfig parity_teacher(const ParityCase& p) {
  ParityCase other;
  other.flavour = "llama";
  other.context = p.context > 0 ? p.context : p.size;
  other.layers = p.layers;
  auto c = parity_model(other);
  c.head_dim = 2;
  c.width = 12;
  c.ffn_width = 16;
  c.logit_softcap = 0.7;
  return c;
}

TrainerSetup parity_setup(const ParityCase& p) {
  TrainerSetup s;
  s.model = parity_model(p);
  if (p.teacher) {
    s.objective = Objective::distill;
    s.teacher = TeacherSetup{parity_teacher(p), 1.7, 0.6};
  }
  s.optimizer.name = p.optimizer;
  s.optimizer.momentum = p.momentum;
  s.optimizer.nesterov = p.momentum > 0 && p.nesterov;
  const bool plain = p.optimizer == OptimizerKind::sgd;
  if (plain) {  // Adam and clipping hide constant factors
    s.optimizer.weight_decay = 0;
    s.optimizer.clip = 0;
  }
  if (p.clip) s.optimizer.clip = *p.clip;
  s.zero = p.zero;
  s.freeze = p.freeze;
  s.stage_layers = p.stage_layers;
  s.schedule = p.schedule;
  s.chunks = p.chunks;
  s.compute = p.compute;
  s.reduce = p.reduce;
  s.exact_chunk = p.exact_chunk;
  s.chunk_tokens = p.chunk_tokens;
  s.attention = p.documents ? AttentionSpan::document : AttentionSpan::causal;
  s.seed = 11;
  if (p.flavour == "mixture" || p.flavour == "two_experts") {
    s.balance = Balance::sample;
    s.balance_weight = 0.5;
    s.router_z = 0.1;
    s.expert_tokens = 9;  // several rounds
  }
  if (p.flavour == "sigmoid") {
    s.balance = Balance::bias;
    s.balance_rate = 0.01;
  }
  return s;
}

PlanInput plan_input(const ParityCase& p) {
  PlanInput in;
  in.setup = parity_setup(p);
  in.train.batch = p.size;
  in.train.steps = p.steps;
  in.train.microbatch = p.size / (p.grid.data * p.microbatches);
  in.grid = p.grid;
  in.evaluation = PlanEvaluation::left_out;
  in.transport = p.transport;
  return in;
}

namespace {

// Of those that mean the same on their grid, one.
std::vector<ParityCase> without_repeats(std::vector<ParityCase> cases) {
  std::set<std::string> names;
  std::erase_if(cases, [&](const ParityCase& c) { return !names.insert(name_of(c)).second; });
  return cases;
}

std::vector<Factor> factors_on(const Grid& grid) {
  auto all = factors(grid.ranks());
  std::erase_if(all[0], [&](const Change& choose) {
    ParityCase c;
    choose(c);
    return c.grid != grid;
  });
  return all;
}

}  // namespace

std::vector<ParityCase> pairwise_cases(int ranks) {
  return covering_cases(factors(ranks), 2);
}

std::vector<ParityCase> exact_cases(std::vector<ParityCase> cases, const char* backend,
                                    DType compute) {
  for (auto& c : cases) {
    c.backend = backend;
    c.compute = compute;
    c.reduce = DType::f32;
    c.teacher = false;  // refused
    c.exact_chunk = 2;  // divides what each of up to 8 ranks has
  }
  return cases;
}

std::vector<ParityCase> exact_pairs(int ranks, const char* backend, DType compute) {
  return exact_cases(covering_cases(exact_factors(factors(ranks)), 2), backend, compute);
}

std::vector<ParityCase> exact_selection(int ranks, const char* backend, DType compute) {
  auto all = exact_factors(factors(1));
  all[0].clear();
  for (int n = 1; n <= 8; ++n) std::ranges::copy(grids(n), std::back_inserter(all[0]));
  std::vector<ParityCase> cases;
  std::size_t grid = 0;
  for (auto choice : covering_choices(settings_of(all), 2, 1)) {
    choice[0] = grid++ % all[0].size();
    cases.push_back(make_case(all, choice));
  }
  std::erase_if(cases, [&](const ParityCase& c) { return c.grid.ranks() != ranks; });
  return exact_cases(std::move(cases), backend, compute);
}

std::vector<ParityCase> few_cases(int n) {
  std::vector<ParityCase> cases(16);
  for (auto& c : cases) c.zero.stage = 3;
  cases[0].grid = {n >= 2 ? 2 : 1, 1, n >= 4 ? n / 2 : 1};
  cases[0].dropout = 0.1;
  cases[0].recompute = Recompute::block;
  cases[0].microbatches = 4;
  cases[0].optimizer = OptimizerKind::adamw;
  cases[1].grid = {1, n >= 4 ? n / 2 : 1, n >= 4 ? 2 : n};
  cases[1].flavour = "mixture";
  cases[1].grid.expert = cases[1].grid.places() > 1 ? 2 : 1;
  cases[1].microbatches = 4;
  cases[2].grid = {n >= 4 ? 2 : 1, n >= 4 ? n / 2 : n, 1};
  cases[2].flavour = "gqa";
  cases[2].zero.stage = 1;
  cases[2].teacher = true;
  cases[3].grid = {1, n, 1};
  cases[3].chunk_tokens = 6;
  cases[3].zero.shard = n >= 4 ? n / 2 : 1;
  cases[3].zero.reduce = ZeroCadence::step;
  cases[3].microbatches = cases[3].size / n >= 4 ? 4 : 1;
  cases[4].grid = {n, 1, 1};
  cases[4].microbatches = 8;
  // Learned positions, and rotary ones.
  cases[5] = cases[0];
  cases[6] = cases[1];
  cases[5].documents = cases[6].documents = true;
  cases[7] = cases[8] = cases[0];
  cases[7].recompute = Recompute::none;
  cases[7].schedule = ScheduleKind::zero_bubble;
  cases[7].flavour = "qwen";
  cases[8].schedule = ScheduleKind::interleaved;
  cases[8].chunks = 2;
  cases[9].grid = {1, n, 1};
  cases[9].grid.expert = n > 1 ? 2 : 1;
  cases[9].flavour = "sigmoid";
  cases[9].zero.stage = 0;
  cases[9].microbatches = 4;
  cases[10] = cases[8];
  cases[10].schedule = ScheduleKind::zbv;
  cases[11] = cases[0];
  cases[11].flavour = "olmo2";
  cases[11].recompute = Recompute::none;
  cases[11].optimizer = OptimizerKind::sgd;
  cases[12] = cases[7];
  cases[12].flavour = "gemma2";
  cases[13] = cases[3];
  cases[13].flavour = "gemma3";
  cases[14] = cases[7];
  cases[14].base = BaseType::nf4;
  cases[15] = cases[3];
  cases[15].base = BaseType::bf16;
  cases[15].zero = cases[2].zero;
  cases[14].adapter_rank = cases[15].adapter_rank = 2;
  for (const std::size_t i : {0, 1, 5, 10, 11}) cases[i].chunk_tokens = 6;
  for (auto& c : cases)
    if (c.size % (c.grid.data * c.microbatches) != 0) c.microbatches = 1;
  return cases;
}

std::vector<ParityCase> many_cases(int n) {
  std::vector<ParityCase> cases(6);
  for (auto& c : cases) {
    c.size = 32;
    c.steps = 2;
    c.zero.stage = 3;
  }
  cases[0].grid = {4, n / 16, 4};
  cases[0].zero.shard = n / 8;  // two copies of each stage
  cases[0].microbatches = 4;
  cases[0].dropout = 0.1;
  cases[0].recompute = Recompute::block;
  cases[1].grid = {2, n / 8, 4};
  cases[1].flavour = "llama";
  cases[1].optimizer = OptimizerKind::adamw;
  cases[2].grid = {4, n / 4, 1};
  cases[2].flavour = "gqa";
  cases[2].zero.stage = 1;
  cases[2].zero.shard = 4;
  cases[2].microbatches = 1;
  cases[3].grid = {8, n / 32, 4};
  cases[3].flavour = "qwen";
  cases[3].schedule = ScheduleKind::zero_bubble;
  cases[3].microbatches = 8;
  cases[3].teacher = true;
  cases[4].grid = {4, n / 16, 4};
  cases[4].zero.stage = 2;
  cases[4].schedule = ScheduleKind::interleaved;
  cases[4].chunks = 2;
  cases[4].microbatches = 4;
  cases[5].grid = {1, n / 8, 8};  // 12 heads: some ranks have two
  cases[5].zero.stage = 0;
  cases[5].documents = true;
  return cases;
}

std::vector<ParityCase> covering_cases(const Grid& grid, std::size_t size) {
  return without_repeats(covering_cases(factors_on(grid), size));
}

// One for each grid, the other settings drawn.
static std::vector<ParityCase> f32_cases(int ranks, std::uint64_t draw) {
  const auto all = factors(ranks);
  std::vector<ParityCase> cases;
  for (std::size_t grid = 0; grid < all[0].size(); ++grid) {
    Choice choice{grid};
    for (std::size_t f = 1; f < all.size(); ++f) choice.push_back(mix64(++draw) % all[f].size());
    auto c = make_case(all, choice);
    c.compute = DType::f32;
    c.reduce = grid % 3 == 2 ? DType::bf16 : DType::f32;
    c.optimizer = OptimizerKind::sgd;  // Adam divides rounding by rounding where a gradient is 0
    c.steps = 2;
    cases.push_back(c);
  }
  return cases;
}

void between_devices(ParityCase& c) {
  c.transport = TransportKind::device;
  if (c.chunks == 1) return;
  c.schedule = ScheduleKind::zero_bubble;
  c.chunks = 1;
}

std::vector<ParityCase> fenced_cases(int ranks) {
  auto cases = f32_cases(ranks, 0);
  // Keys and values that stream past.
  for (const bool documents : {false, true}) {
    if (ranks == 1) break;
    ParityCase c;
    c.grid = {1, 1, ranks};
    c.size = 2 * ranks * std::max(1, 8 / ranks);
    c.flavour = documents ? "two" : "one";
    c.documents = documents;
    c.compute = c.reduce = DType::f32;
    c.steps = 2;
    cases.push_back(c);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i].backend = "fenced";
    if (i % 3 != 1) continue;
    cases[i].adapter_rank = 2;
    if (i % 2 == 0) cases[i].base = BaseType::nf4;
  }
  return cases;
}

std::vector<ParityCase> device_wire_cases(int ranks) {
  auto cases = f32_cases(ranks, 1000);
  for (auto& c : cases) {
    c.backend = "host";
    between_devices(c);
  }
  return cases;
}

std::vector<Grid> parity_grids(const std::vector<int>& ranks) {
  std::vector<Grid> grids;
  for (const int n : ranks)
    for (int pipe = 1; pipe <= n; ++pipe)
      for (int seq = 1; pipe * seq <= n; ++seq)
        if (n % (pipe * seq) == 0) grids.push_back({pipe, n / (pipe * seq), seq});
  return grids;
}

}  // namespace trireme::test
