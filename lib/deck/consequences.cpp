#include "lib/deck/consequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "lib/deck/consequence_texts.hpp"
#include "lib/deck/table.hpp"
#include "lib/train/objective.hpp"

namespace trireme {

namespace {

// A row of the table. If the text is a string, it is the consequence of each changed key alone.
// "{before}" and "{after}" in it stand for the values. A function returns the consequence of all
// changed keys of the row, or an empty text if there is none.
struct Row {
  std::vector<std::string_view> keys;
  std::variant<std::string_view, std::string (*)(const Changed&)> text;
  // Returns false if the deck does not use the key. Null means that all decks do.
  bool (*used)(const Deck&, std::string_view key) = nullptr;
  Affects affects = Affects::course;
  // Whether it also concerns a new run that takes only the weights (model.init_from).
  bool at_init_from = false;
  // Returns the causes of the consequence, which may be without a changed key. Null: all changed
  // keys are the causes.
  std::string (*causes)(const Changed&) = nullptr;
};

bool by_adamw(const Deck& d, std::string_view) {
  return d.optimizer.name == OptimizerKind::adamw || sees_matrices(d.optimizer.name);
}
bool by_matrices(const Deck& d, std::string_view) {
  return sees_matrices(d.optimizer.name);
}
bool by_muon(const Deck& d, std::string_view) {
  return d.optimizer.name == OptimizerKind::muon;
}
bool by_shampoo(const Deck& d, std::string_view) {
  return d.optimizer.name == OptimizerKind::shampoo;
}
bool in_fp8(const Deck& d, std::string_view) {
  return d.precision.products == ProductType::fp8;
}
bool by_sgd(const Deck& d, std::string_view) {
  return d.optimizer.name == OptimizerKind::sgd;
}
bool with_betas(const Deck& d, std::string_view) {
  return d.optimizer.name != OptimizerKind::sgd;
}
bool with_objective(const Deck& d, std::string_view key) {
  const auto keys = traits_of(d.train.objective).keys;
  return std::ranges::any_of(keys, [&](const auto& k) { return key.substr(6) == k.name; });
}
bool with_teacher(const Deck& d, std::string_view) {
  return traits_of(d.train.objective).fixed == FixedModel::teacher;
}
bool with_experts(const Deck& d, std::string_view) {
  return d.model.experts > 0;
}
bool with_bias_balance(const Deck& d, std::string_view) {
  return d.train.balance == Balance::bias;
}
bool with_sample_balance(const Deck& d, std::string_view) {
  return d.train.balance == Balance::sample;
}
bool with_adapters(const Deck& d, std::string_view) {
  return d.adapter.rank > 0;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {.keys = {"optimizer.lr", "schedule.shape", "schedule.warmup_steps", "schedule.min_lr",
                "schedule.decay_steps", "schedule.warmup_tokens", "schedule.decay_tokens",
                "schedule.decay_end_steps", "schedule.decay_end_tokens", "train.steps",
                "train.tokens", "train.epochs", "train.batch", "train.batch_ramp", "model.context"},
       .text = rate_text,
       .at_init_from = true,
       .causes = rate_causes},
      {{"train.batch", "train.batch_ramp"}, batch_text},
      {.keys = {"model.context"}, .text = context_text, .at_init_from = true},
      {{"train.seed"}, seed_text},
      {{"data.order"}, order_text},
      {{"data.weights", "phase.from_step", "phase.from_tokens", "phase.path", "phase.weights"},
       phases_text},
      {{"data.loss_weights"},
       "the weights of the files' documents in the loss are {after} instead of {before}"},
      {{"data.packing", "data.long_documents", "data.validation"}, cut_text},
      {.keys = {"data.attention"}, .text = attention_text, .at_init_from = true},
      {{"data.separator_masks"}, masks_text},
      {.keys = {"evaluate.batches", "evaluate.ema", "data.validation", "validation.path",
                "validation.weight", "train.batch", "train.objective", "data.packing",
                "data.long_documents", "data.attention", "data.separator_masks", "model.context"},
       .text = evaluations_text,
       .affects = Affects::evaluations,
       .causes = evaluations_causes},
      {{"train.objective"},
       "the loss is that of the objective {after} instead of {before}, and is not comparable with "
       "the losses before"},
      {{"train.dpo_beta", "train.simpo_beta", "train.simpo_gamma", "train.orpo_lambda",
        "train.kto_beta", "train.kto_desirable_weight", "train.kto_undesirable_weight"},
       "the loss is computed with {after} instead of {before}, and is not comparable with the "
       "losses before",
       with_objective},
      {{"distill.temperature", "distill.weight"},
       "the loss is computed with {after} instead of {before}, and is not comparable with the "
       "losses before",
       with_teacher},
      {{"train.balance"},
       "the loads of experts are balanced by the method {after} instead of {before}",
       with_experts},
      {{"train.balance_rate"},
       "router biases change by {after} in each step instead of {before}",
       with_bias_balance},
      {{"train.balance_weight"},
       "the gradient contains the load-balancing loss with the weight {after} instead of {before}",
       with_sample_balance},
      {{"train.router_z"},
       "the gradient contains the router z-loss with the weight {after} instead of {before}",
       with_experts},
      {{"train.skip_above", "train.skip_window"}, skip_text},
      {{"train.skip_steps"}, skip_steps_text},
      {{"model.dropout"}, "the dropout probability of activations is {after} instead of {before}"},
      {{"adapter.dropout"},
       "the dropout probability of the adapters' inputs is {after} instead of {before}",
       with_adapters},
      {{"adapter.b_lr_ratio"},
       "the learning rate of the matrices b is {after} times that of the others, instead of "
       "{before} times",
       with_adapters},
      {{"optimizer.name"}, "the optimizer {after} updates the weights instead of {before}"},
      {{"optimizer.betas"}, betas_text, with_betas},
      {{"optimizer.eps"},
       "updates are divided by the square root of the second moment plus {after} instead of "
       "{before}",
       by_adamw},
      {{"optimizer.momentum"},
       "the momentum decays by the factor {after} in each step instead of {before}",
       by_sgd},
      {{"optimizer.nesterov"}, "Nesterov momentum changes from {before} to {after}", by_sgd},
      {{"optimizer.weight_decay"}, decay_text},
      {{"optimizer.no_decay"},
       "the patterns of parameters without weight decay change from {before} to {after}"},
      {{"optimizer.clip"}, clip_text},
      {{"optimizer.matrix_momentum"},
       "the momentum of matrices decays by the factor {after} in each step instead of {before}",
       by_matrices},
      {{"optimizer.matrix_nesterov"},
       "Nesterov momentum of matrices changes from {before} to {after}",
       by_matrices},
      {{"optimizer.matrix_scale"},
       "the factor on the steps of matrices is {after} instead of {before}",
       by_matrices},
      {{"optimizer.matrix_heads"},
       "the division of queries, keys and values into matrices changes from {before} to {after}",
       by_matrices},
      {{"optimizer.muon_polynomials"},
       "the polynomials of Newton-Schulz steps are {after} instead of {before}",
       by_muon},
      {{"optimizer.shampoo_beta"},
       "the averages of products of gradients decay by the factor {after} in each step instead of "
       "{before}",
       by_shampoo},
      {{"optimizer.shampoo_eps"},
       "roots are computed with {after} of the norm on the diagonal instead of {before}",
       by_shampoo},
      {{"optimizer.shampoo_every"},
       "roots are computed every {after} updates instead of every {before}",
       by_shampoo},
      {{"optimizer.adamw_lr"}, adamw_rate_text, by_matrices},
      {{"optimizer.adamw_weight_decay"}, adamw_decay_text, by_matrices},
      {{"optimizer.adamw_patterns"},
       "the patterns of matrices that AdamW updates change from {before} to {after}",
       by_matrices},
      {{"freeze.pattern", "freeze.from_step", "freeze.to_step", "freeze.moments"}, freeze_text},
      {.keys = {"precision.compute"},
       .text = "activations and weights are rounded to {after} instead of {before}",
       .at_init_from = true},
      {{"precision.reduce"}, "gradients are sent as {after} instead of {before}"},
      {{"precision.tf32"},
       "the use of TF32 for f32 products on GPUs changes from {before} to {after}"},
      {.keys = {"precision.products"},
       .text = "the operands of linear layers are rounded to {after} instead of {before}",
       .at_init_from = true},
      {{"precision.fp8_except"},
       "the patterns of weights whose products are not in fp8 change from {before} to {after}",
       in_fp8},
      {{"precision.fp8_skip_first"},
       "the products of the first {after} blocks instead of {before} are not in fp8",
       in_fp8},
      {{"precision.fp8_skip_last"},
       "the products of the last {after} blocks instead of {before} are not in fp8",
       in_fp8},
      {{"precision.fp8_head"},
       "the use of fp8 for the head changes from {before} to {after}",
       in_fp8},
      {.keys = {"parallel.pipe", "parallel.data", "parallel.seq", "parallel.expert",
                "parallel.expert_tokens", "parallel.stage_layers", "parallel.schedule",
                "parallel.chunks", "zero.stage", "zero.shard", "zero.gather", "zero.reduce",
                "zero.gather_type", "train.microbatch", "model.chunk_tokens", "run.threads",
                "run.backend", "run.exactness", "run.exact_chunk"},
       .text = rounding_text,
       .affects = Affects::rounding},
  };
  return rows;
}

// Keys whose changes leave the course of training as it is. Some decide when the run ends, what it
// writes, or how fast it computes.
constexpr std::array nothing = {"model.preset",
                                "model.max_context",
                                "model.recompute",
                                "model.offload",
                                "validation.name",
                                "train.max_skipped",
                                "train.rollback",
                                "train.max_rollbacks",
                                "zero.prefetch",
                                "zero.scatters",
                                "zero.detect_freeze",
                                "evaluate.every_steps",
                                "evaluate.best_by",
                                "evaluate.best_set",
                                "evaluate.patience",
                                "evaluate.sample_prompt",
                                "evaluate.sample_tokens",
                                "evaluate.sample_every",
                                "evaluate.sample_temperature",
                                "checkpoint.every_steps",
                                "checkpoint.every_minutes",
                                "checkpoint.keep_last",
                                "checkpoint.keep_best",
                                "checkpoint.keep_every",
                                "checkpoint.async",
                                "checkpoint.on_error",
                                "checkpoint.memory_every",
                                "run.time_limit",
                                "run.signal_grace",
                                "run.hang_timeout",
                                "run.log_every",
                                "run.trace_steps",
                                "run.trace_ranks",
                                "run.tensorboard",
                                "run.peak_tflops",
                                "run.machine",
                                "run.digest_every",
                                "run.replay_every",
                                "run.on_fault",
                                "run.debug",
                                "run.guards",
                                "run.share_gpu",
                                "run.device_headroom"};

// Keys whose effects are compared with the checkpoint in another way: token files, scores, averages
// and teachers by their contents, and the model by what it computes (model_differences).
// model.init_from has no effect at a restart.
constexpr std::array elsewhere = {"data.path",
                                  "train.ema",
                                  "train.dpo_scores",
                                  "distill.teacher",
                                  "model.init_from",
                                  "adapter.rank",
                                  "adapter.method",
                                  "adapter.alpha",
                                  "adapter.rank_stabilized",
                                  "adapter.base",
                                  "adapter.patterns",
                                  "adapter.also_train",
                                  "adapter_rank.pattern",
                                  "adapter_rank.rank",
                                  "adapter_rank.alpha"};

}  // namespace

std::vector<Consequence> consequences(const ContinuedRun& run, Beginning beginning) {
  const auto changes = deck_changes(run.before, run.after);
  std::vector<Consequence> all;
  for (const auto& row : table()) {
    if (beginning == Beginning::from_weights && !row.at_init_from) continue;
    Changed changed{run, beginning, {}};
    for (const auto& c : changes)
      if (std::ranges::find(row.keys, c.key) != row.keys.end() &&
          (!row.used || row.used(run.after, c.key)))
        changed.keys.push_back(c);
    if (changed.keys.empty() && !row.causes) continue;
    if (const auto* const text = std::get_if<std::string_view>(&row.text)) {
      for (const auto& c : changed.keys)
        all.push_back({row.affects, c.key,
                       fmt::format(fmt::runtime(*text), fmt::arg("before", c.before),
                                   fmt::arg("after", c.after))});
      continue;
    }
    auto effect = std::get<std::string (*)(const Changed&)>(row.text)(changed);
    if (!effect.empty())
      all.push_back({row.affects, row.causes ? row.causes(changed) : names_of_keys(changed.keys),
                     std::move(effect)});
  }
  return all;
}

TreatedKeys treated_keys() {
  TreatedKeys keys;
  for (const auto& row : table())
    keys.consequence.insert(keys.consequence.end(), row.keys.begin(), row.keys.end());
  keys.nothing.assign(nothing.begin(), nothing.end());
  keys.elsewhere.assign(elsewhere.begin(), elsewhere.end());
  for (const auto& key : find_section("model")->keys)
    if (!key.of_run && key.name != "context" && key.name != "max_context")
      keys.elsewhere.push_back(key.path());
  return keys;
}

}  // namespace trireme
