// What is said of names that other trainers use: wherever they stand, a hint to a key that exists.
#include "lib/deck/familiar.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "lib/deck/table.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Familiar, EveryRowLeadsToAKeyThatExists) {
  std::set<std::string_view> seen;
  const std::regex path("\\b([a-z]+)\\.([a-z_]+)\\b");
  for (const auto& f : familiar_names()) {
    EXPECT_TRUE(seen.insert(f.name).second) << f.name << " has two rows";
    EXPECT_TRUE(f.key.empty() || find_key(f.key)) << f.name << " -> " << f.key;
    EXPECT_FALSE(f.key.empty() && f.says.empty()) << f.name << " says nothing";
    EXPECT_EQ(find_familiar(f.name), &f) << f.name << " cannot be found";
    for (const auto& section : deck_sections())
      EXPECT_EQ(find_key(section, f.name), nullptr) << f.name << " is a key of " << section.name;
    const auto hint = hint_of(f);
    for (std::sregex_iterator at(hint.begin(), hint.end(), path), end; at != end; ++at)
      EXPECT_TRUE(find_key(at->str())) << f.name << " says " << at->str();
  }
}

TEST(Familiar, EveryValueIsOneOfAKey) {
  for (const auto& v : familiar_values()) {
    bool known = false, taken = false;
    for (const auto& section : deck_sections())
      for (const auto& key : section.keys) {
        known |= std::ranges::find(key.choices, v.ours) != key.choices.end();
        taken |= std::ranges::find(key.choices, v.value) != key.choices.end();
      }
    EXPECT_TRUE(known) << v.ours;
    EXPECT_FALSE(taken) << v.value;
  }
}

struct Known {
  const char *name, *hint;
};
const Known known[] = {
    {"learning_rate", "learning_rate is optimizer.lr here"},
    {"batch_size", "batch_size is train.batch here"},
    {"micro_batch_size", "micro_batch_size is train.microbatch here"},
    {"n_embd", "n_embd is model.width here"},
    {"n_layer", "n_layer is model.layers here"},
    {"n_head", "n_head is model.heads here"},
    {"block_size", "block_size is model.context here"},
    {"seq_len", "seq_len is model.context here"},
    {"max_seq_len", "max_seq_len is model.context here"},
    {"max_position_embeddings",
     "is model.max_context here, the maximum context length of the model"},
    {"hidden_size", "hidden_size is model.width here"},
    {"num_hidden_layers", "num_hidden_layers is model.layers here"},
    {"num_attention_heads", "num_attention_heads is model.heads here"},
    {"num_key_value_heads", "num_key_value_heads is model.kv_heads here"},
    {"intermediate_size", "intermediate_size is model.ffn_width here"},
    {"partial_rotary_factor", "partial_rotary_factor is model.rotary_dim here"},
    {"no_rope_layers", "no_rope_layers is model.nope_layers here"},
    {"residual_multiplier", "residual_multiplier is model.residual_scale here"},
    {"logits_scaling", "give 1 / logits_scaling"},
    {"dtype", "dtype is precision.compute here"},
    {"max_steps", "max_steps is train.steps here"},
    {"max_iters", "max_iters is train.steps here"},
    {"grad_clip", "grad_clip is optimizer.clip here"},
    {"max_grad_norm", "max_grad_norm is optimizer.clip here"},
    {"pipeline_parallel_size", "pipeline_parallel_size is parallel.pipe here"},
    {"context_parallel_size", "context_parallel_size is parallel.seq here"},
    {"zero_stage", "zero_stage is zero.stage here"},
    {"enable_fsdp_float8_all_gather", "is zero.gather_type = \"fp8\" here"},
    {"num_layers_at_end_in_bf16", "num_layers_at_end_in_bf16 is precision.fp8_skip_last here"},
    {"gradient_accumulation_steps", "train.batch / (parallel.data * train.microbatch)"},
    {"tensor_parallel_size", "zero.stage = 3 shards weights over ranks"},
    {"lora_rank", "lora_rank is adapter.rank here"},
    {"lora", "is [adapter] here"},
    {"target_modules", "target_modules is adapter.patterns here"},
    {"num_experts", "num_experts is model.experts here"},
    {"num_experts_per_tok", "num_experts_per_tok is model.experts_per_token here"},
    {"top_k", "top_k is model.experts_per_token here"},
    {"capacity_factor", "an expert processes all tokens that chose it, and no token is dropped"},
    {"moe_expert_capacity_factor", "moe_expert_capacity_factor has no counterpart"},
    {"expert_model_parallel_size", "expert_model_parallel_size is parallel.expert here"},
    {"ep_size", "ep_size is parallel.expert here"},
    {"first_k_dense_replace", "is model.dense_layers here, a list of the blocks"},
    {"router_aux_loss_coef", "is train.balance_weight here, with train.balance = \"sample\""},
    {"moe_z_loss_coeff", "moe_z_loss_coeff is train.router_z here"},
    {"moe_router_bias_update_rate", "is train.balance_rate here"},
    {"moe_shared_expert_intermediate_size", "is model.shared_expert_width here"},
    {"moe_layers", "moe is set by model.experts here"},
    {"use_ema", "use_ema is train.ema here, the decay of a moving average of the weights"},
    {"ema_decay", "ema_decay is train.ema here"},
    {"evaluate_ema_weights_instead", "evaluate_ema_weights_instead is evaluate.ema here"},
    {"qlora", "qlora is [adapter] here, with adapter.base = \"nf4\""},
    {"load_in_4bit", "load_in_4bit is [adapter] here, with adapter.base = \"nf4\""},
    {"dpo", "dpo is train.objective = \"dpo\" here"},
    {"orpo", "orpo is train.objective = \"orpo\" here"},
    {"kto", "kto is train.objective = \"kto\" here"},
    {"undesirable_weight", "undesirable_weight is train.kto_undesirable_weight here"},
    {"gamma_beta_ratio", "is train.simpo_gamma here, which is the ratio times train.simpo_beta"},
    {"ref_model", "ref_model is train.dpo_scores here: `trireme score` writes that file"},
    {"sample_packing", "sample_packing is data.packing here"},
    // Of optimizers that see matrices.
    {"muon_momentum", "muon_momentum is optimizer.matrix_momentum here"},
    {"muon_use_nesterov", "muon_use_nesterov is optimizer.matrix_nesterov here"},
    {"muon_scale", "muon_scale is optimizer.matrix_scale here"},
    {"muon_scale_mode", "\"unit_rms_norm\" is \"sqrt(out/in)\""},
    {"muon_extra_scale_factor", "contains the factor 0.2"},
    {"adjust_lr_fn", "\"match_rms_adamw\" is \"0.2 sqrt(max(out, in))\""},
    {"muon_num_ns_steps", "Muon always takes five Newton-Schulz steps"},
    {"muon_coefficient_type", "\"simple\" is \"jordan\""},
    {"muon_split_qkv", "optimizer.matrix_heads = \"each\" also divides them into heads"},
    {"muon_lr", "muon_lr is optimizer.lr here, the learning rate of matrices"},
    {"adam_lr", "adam_lr is optimizer.adamw_lr here"},
    {"head_lr", "head_lr is optimizer.adamw_lr here"},
    {"adamw_betas", "adamw_betas is optimizer.betas here"},
    {"adamw_eps", "adamw_eps is optimizer.eps here"},
    {"adamw_wd", "adamw_wd is optimizer.adamw_weight_decay here"},
    {"ns_coefficients", "takes a name instead of numbers: \"jordan\" is (3.4445, -4.7750, 2.0315)"},
    {"ns_epsilon", "each value of optimizer.muon_polynomials has its own epsilon"},
    {"qk_clip", "qk_clip has no counterpart: optimizer.clip limits the norm of the gradient"},
    {"max_preconditioner_dim", "shampoo updates matrices of all sizes"},
    {"use_muon", "muon is optimizer.name = \"muon\" here"},
    {"precondition_frequency", "precondition_frequency is optimizer.shampoo_every here"},
    // Of data, phases of the learning rate, and averages.
    {"split", "split is data.validation here, the fraction of each file that is held out"},
    {"blend", "blend is data.path with data.weights here"},
    {"train_samples", "is train.tokens here, a number of tokens: samples * model.context"},
    {"eod_mask_loss", "eod_mask_loss is data.separator_masks here"},
    {"reset_position_ids", "is data.attention = \"document\" here"},
    {"data_cache_path", "data_cache_path has no counterpart: token files are read in place"},
    {"cooldown_steps", "is schedule.decay_steps here, with shape = \"wsd\""},
    {"min_lr_ratio", "is schedule.min_lr here, a learning rate: optimizer.lr times the ratio"},
    {"decay_fraction", "is schedule.decay_steps here, a number of steps"},
    {"model_ema", "model_ema is train.ema here"},
    {"rampup_batch_size", "rampup_batch_size is train.batch_ramp here, a list"},
    {"iterations_to_skip", "iterations_to_skip is train.skip_steps here"},
    {"use_distributed_optimizer", "is zero.stage = 1 here"},
    {"alpha_f", "is schedule.min_lr here"},
    {"datasets", "datasets is data.path here"},
    {"global_train_batch_size", "global_train_batch_size is train.batch here"},
    // Ours by name, in another section.
    {"weight_decay", "optimizer"},
    {"warmup_steps", "schedule"},
    {"min_lr", "schedule"},
    {"seed", "train"},
};

class FamiliarPlaces : public testing::TestWithParam<Known> {};

TEST_P(FamiliarPlaces, GiveTheSameHint) {
  const std::string name = GetParam().name, line = name + " = 1\n";
  const auto hint = HasSubstr(GetParam().hint);

  EXPECT_THAT(refusal(line + std::string(least_deck)), hint);
  for (const auto* section : {"model", "evaluate", "run"})
    EXPECT_THAT(refusal_of_addition(std::string("[") + section + "]\n" + line), hint);
  EXPECT_THAT(refusal_of_overrides({name + "=1"}), hint);
  EXPECT_THAT(refusal_of_overrides({"training." + name + "=1"}), hint);
}

INSTANTIATE_TEST_SUITE_P(All, FamiliarPlaces, testing::ValuesIn(known),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Familiar, AnySpellingAndAnUnknownSection) {
  EXPECT_EQ(refusal_of_overrides({"Learning-Rate=1"}),
            "override 'Learning-Rate=1': 'Learning-Rate' is not a key: learning_rate is "
            "optimizer.lr here");
  EXPECT_EQ(refusal_of_addition("[training]\nmax_norm = 1\n"),
            "d.toml:5:1: there is no section [training]; did you mean [train]?\n"
            "d.toml:6:1: max_norm is optimizer.clip here");
}

// The one mistake is named, not what follows from it.
TEST(Familiar, WhatAHintStandsForIsNotMissed) {
  EXPECT_EQ(refusal("[data]\npath = 'x'\n[train]\nmax_iters = 3\n"),
            "d.toml:4:1: there is no key 'max_iters' in [train]; max_iters is train.steps here");
}

TEST(Familiar, ValuesInOtherWords) {
  struct Value {
    std::string key, value, ours;
  };
  for (const auto& [key, value, ours] :
       {Value{"precision.compute", "float32", "f32"},
        {"precision.compute", "bfloat16", "bf16"},
        {"precision.compute", "double", "f64"},
        {"optimizer.name", "dist_muon", "muon"},
        {"optimizer.matrix_scale", "original", "sqrt(max(1, out/in))"},
        {"optimizer.matrix_scale", "match_rms_adamw", "0.2 sqrt(max(out, in))"},
        {"optimizer.matrix_scale", "unit_rms_norm", "sqrt(out/in)"},
        {"optimizer.matrix_scale", "spectral", "0.2 sqrt(max(out, in))"},
        {"optimizer.muon_polynomials", "polar_express", "polar-express"},
        {"optimizer.muon_polynomials", "simple", "jordan"}})
    EXPECT_THAT(refusal_of_overrides({fmt::format("{}={}", key, value)}),
                HasSubstr(fmt::format("did you mean \"{}\"?", ours)));
}

TEST(Familiar, WhatThereIsNotIsSaidSo) {
  std::set<std::string> all;
  for (const auto& f : familiar_names())
    if (f.unsupported()) all.emplace(f.name);
  EXPECT_EQ(all, (std::set<std::string>{"grpo", "neftune", "ppo", "rlhf"}));
  for (const auto& name : all) {
    EXPECT_THAT(describe_key(name), HasSubstr(name + " is not supported: "));
    EXPECT_THAT(refusal_of_overrides({name + ".rank=8"}), HasSubstr(name + " is not supported: "));
    const auto section = refusal_of_addition("[" + name + "]\nrank = 8\n");
    EXPECT_THAT(section, HasSubstr("d.toml:5:1: there is no section [" + name + "]; " + name +
                                   " is not supported: "));
    EXPECT_THAT(section, Not(HasSubstr("did you mean")));
  }
  EXPECT_EQ(refusal_of_overrides({"optimizer.name=grpo"}),
            "override 'optimizer.name=grpo': optimizer.name = \"grpo\" is not supported; it can be "
            "\"adamw\", \"sgd\", \"lion\", \"muon\" or \"shampoo\"");
  EXPECT_EQ(find_familiar("schema"), nullptr);
}

TEST(Familiar, WhatSeveralKeysAreIsFoundAsASection) {
  EXPECT_THAT(describe_key("qlora"), HasSubstr("adapter.base = \"nf4\""));
  EXPECT_THAT(refusal_of_addition("[qlora]\nrank = 8\n"),
              HasSubstr("d.toml:5:1: there is no section [qlora]; qlora is [adapter] here"));
  EXPECT_THAT(refusal_of_overrides({"adapter.base=qlora"}),
              HasSubstr("is not known (did you mean \"nf4\"?)"));
}

TEST(Familiar, IsDescribedToo) {
  EXPECT_THAT(describe_key("learning_rate"),
              HasSubstr("learning_rate is optimizer.lr here\n\noptimizer.lr"));
  EXPECT_THAT(describe_key("out_dir"), HasSubstr("--run-dir"));
  EXPECT_THAT(describe_key("lr"), Not(HasSubstr("here")));
}

}  // namespace
}  // namespace trireme
