// What a case is called, and the model, step and plan's input that it is of.
#include <fmt/format.h>

#include "tests/support/parity_cases.hpp"

namespace trireme::test {

static std::string text(const ZeroConfig& z) {
  auto s = fmt::format("zero{}", z.stage);
  if (z.stage == 3) {
    if (z.gather == ZeroCadence::step) s += "_gather_step";
    if (z.reduce == ZeroCadence::step) s += "_reduce_step";
  }
  if (z.shard) s += fmt::format("_shard{}", z.shard);
  if (z.gather_type == GatherType::fp8) s += "_gather_fp8";
  if (z.prefetch != 1 || z.scatters != 1) s += fmt::format("_ahead{}_{}", z.prefetch, z.scatters);
  return s;
}

static const char* word_of(const ParityCase& c) {
  if (c.optimizer == OptimizerKind::adamw) return "adamw";
  if (c.optimizer == OptimizerKind::lion) return "lion";
  if (c.optimizer == OptimizerKind::muon) return c.each_head ? "muon_of_heads" : "muon";
  if (c.optimizer == OptimizerKind::shampoo) return c.each_head ? "shampoo_of_heads" : "shampoo";
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
          (c.adapter_rank > 0 ? fmt::format("_{}{}", c.dora ? "dora" : "adapter", c.adapter_rank)
                              : "") +
          (c.base != BaseType::compute ? fmt::format("_{}", trireme::name_of(c.base)) : ""),
      (c.documents ? "_documents" : "") +
          (c.weighted && !trains_on_pairs(c) ? std::string("_weighted") : "") +
          (c.objective == Objective::tokens ? std::string()
                                            : fmt::format("_{}", trireme::name_of(c.objective))),
      word_of(c), c.freeze.empty() ? "" : fmt::format("_freeze{}", c.freeze.size()),
      (c.backend == "ref" ? "" : "_" + c.backend) + (c.exact_chunk > 0 ? "_exact" : "") +
          (c.products == ProductType::fp8 ? "_fp8" : "") + (c.fp8.head ? "_head" : "") +
          (c.fp8.skip_first > 0 ? fmt::format("_skip{}", c.fp8.skip_first) : "") +
          (c.width != 24 ? fmt::format("_width{}", c.width) : "") + (c.clip ? "_clip" : "") +
          (c.ema > 0 ? "_ema" : "") + (c.stage_layers.empty() ? "" : "_uneven") +
          (c.schedule == ScheduleKind::zero_bubble   ? "_zero_bubble"
           : c.schedule == ScheduleKind::zbv         ? "_zbv"
           : c.schedule == ScheduleKind::interleaved ? fmt::format("_chunks{}", c.chunks)
                                                     : "") +
          (c.reduce == DType::bf16 ? "_wire16" : "") +
          (c.transport == TransportKind::device ? "_between_devices" : ""));
}

std::int64_t parity_context(const ParityCase& p) {
  return p.context > 0 ? p.context : p.size;
}

ModelConfig parity_model(const ParityCase& p) {
  ModelConfig c;
  c.layers = p.layers;
  c.width = p.width;
  c.heads = 12;
  c.vocab = 29;
  c.max_context = parity_context(p);
  c.ffn_width = p.width == 24 ? 40 : 2 * p.width - 16;
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
             sigmoid = p.flavour == "sigmoid", gpt_oss = p.flavour == "gpt_oss";
  const bool olmo2 = p.flavour == "olmo2";
  if (olmo2) {
    c.norm_place = NormPlace::after;
    c.qk_norm = true;
    c.qk_norm_over = QkNormOver::width;
  }
  const bool gemma2 = p.flavour == "gemma2", gemma3 = p.flavour == "gemma3",
             scaled = p.flavour == "scaled";
  if (p.flavour == "llama" || olmo2 || gemma2 || gemma3 || scaled || two || mixture || sigmoid ||
      gpt_oss) {
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
  if (scaled) {
    c.norm_place = NormPlace::both;
    c.qkv_bias = true;
    c.tied = true;
    c.head_dim = 6;
    c.rotary_dim = 4;
    c.rope_theta = 100;
    c.nope_layers = {1, 2, 6};
    c.window = 5;
    c.window_layers = {0, 2, 4, 5};
    c.window_rope_theta = 30;
    c.embedding_scale = 3;
    c.residual_scale = 0.6;
    c.logit_scale = 0.4;
    c.logit_softcap = 0.7;
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
  if (gpt_oss) {
    c.bias = true;
    c.activation = ActivationKind::swiglu_clamped;
    c.experts = 5;
    c.experts_per_token = 2;
    c.expert_bias = true;
    c.window = 5;
    c.window_layers = {0, 2, 4, 6};
    c.rope_theta = 100;
    c.rope_scaling = RopeScaling::yarn;
    c.rope_factor = 8;
    c.rope_original_context = 16;
    c.rope_truncate = false;
  }
  if (mixture || sigmoid || gpt_oss) {
    c.expert_width = 16;
    c.attention_sinks = true;
  }
  // Norms behind divide by what is small when a model begins, and its rounding by that, too.
  if (norms_after(c)) c.norm_eps = 0.01;
  if (p.dropout > 0) c.max_context = p.size + 5;  // more than samples have tokens
  return completed(c);
}

static ModelConfig parity_teacher(const ParityCase& p) {
  ParityCase other;
  other.flavour = "llama";
  other.context = parity_context(p);
  other.layers = p.layers;
  auto c = parity_model(other);
  c.head_dim = 2;
  c.width = 12;
  c.ffn_width = 16;
  c.logit_scale = 0.4;
  c.logit_softcap = 0.7;
  return c;
}

bool trains_on_pairs(const ParityCase& p) {
  return traits_of(p.objective).samples != Documents::single;
}

// Numbers of which no default is one.
static ObjectiveSetup parity_objective(const ParityCase& p) {
  if (p.objective == Objective::distill) return TeacherSetup{parity_teacher(p), 1.7, 0.6};
  if (!trains_on_pairs(p)) return TokenTraining{};
  TrainConfig numbers;
  numbers.objective = p.objective;
  numbers.dpo_beta = 0.7;
  numbers.simpo_beta = 1.3;
  numbers.simpo_gamma = 0.4;
  numbers.orpo_lambda = 0.8;
  numbers.kto_beta = 0.6;
  numbers.kto_desirable_weight = 1.2;
  numbers.kto_undesirable_weight = 0.7;
  if (p.adapter_rank == 0) numbers.dpo_scores = "given";
  return objective_setup(numbers, {}, std::nullopt);
}

TrainerSetup parity_setup(const ParityCase& p) {
  TrainerSetup s;
  s.model = parity_model(p);
  s.adapter.rank = p.adapter_rank;
  s.adapter.base = p.base;
  s.adapter.dropout = p.dropout;
  if (p.dora) s.adapter.method = AdapterMethod::dora;
  // Adapters of experts support neither dropout nor DoRA.
  if (p.dropout == 0 && !p.dora && s.model.experts > 0) s.adapter.patterns = {"*", "*.experts.*"};
  if (!p.dora && !s.model.tied)
    s.adapter.patterns.insert(s.adapter.patterns.end(), {"embedding", "head"});
  s.context = parity_context(p);
  s.dropout = p.dropout;
  s.recompute = p.recompute;
  s.offload = p.offload;
  s.objective = parity_objective(p);
  s.optimizer.name = p.optimizer;
  s.optimizer.momentum = p.momentum;
  s.optimizer.nesterov = p.momentum > 0 && p.nesterov;
  const bool plain = p.optimizer == OptimizerKind::sgd;
  if (plain) {  // Adam and clipping hide constant factors
    s.optimizer.weight_decay = 0;
    s.optimizer.clip = 0;
  }
  if (p.clip) s.optimizer.clip = *p.clip;
  if (p.each_head) {
    s.optimizer.matrix_heads = HeadMatrices::each;
    s.optimizer.matrix_scale = MatrixScale::adamw;
    s.optimizer.matrix_nesterov = false;
    s.optimizer.muon_polynomials = MuonPolynomials::polar_express;
  }
  // A small eps multiplies rounding.
  s.optimizer.shampoo_eps = 0.05;
  s.optimizer.shampoo_every = 2;
  s.zero = p.zero;
  s.freeze = p.freeze;
  s.ema = p.ema;
  s.stage_layers = p.stage_layers;
  s.schedule = p.schedule;
  s.chunks = p.chunks;
  s.compute = p.compute;
  s.products = p.products;
  s.fp8 = p.fp8;
  s.reduce = p.reduce;
  s.exact_chunk = p.exact_chunk;
  s.chunk_tokens = p.chunk_tokens;
  s.attention = p.documents || trains_on_pairs(p) ? AttentionSpan::document : AttentionSpan::causal;
  s.seed = 11;
  if (p.flavour == "mixture" || p.flavour == "two_experts") {
    s.balance = Balance::sample;
    s.balance_weight = 0.5;
    s.router_z = 0.1;
    s.expert_tokens = 9;  // several rounds
  }
  if (p.flavour == "gpt_oss") s.expert_tokens = 12;
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
  if (p.weighted && !trains_on_pairs(p)) in.document_weights = DocumentWeights::present;
  in.transport = p.transport;
  return in;
}

}  // namespace trireme::test
