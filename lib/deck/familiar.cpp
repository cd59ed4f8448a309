#include "lib/deck/familiar.hpp"

#include <algorithm>
#include <array>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

constexpr std::string_view a_step =
    "is train.batch here, the number of samples per step over all ranks. train.microbatch is the "
    "number of samples per forward/backward pass on each data-parallel rank";
constexpr std::string_view accumulated =
    "is not a key here. The number of accumulated micro-batches is train.batch / (parallel.data * "
    "train.microbatch)";
constexpr std::string_view no_tensor_axis =
    "has no counterpart: zero.stage = 3 shards weights over ranks, parallel.seq splits each "
    "sample, and parallel.pipe splits the layers";
constexpr std::string_view no_epochs =
    "has no counterpart: train.steps or train.tokens sets the length of the run. `trireme check` "
    "prints the length of an epoch";
constexpr std::string_view in_steps = "is schedule.warmup_steps here, a number of steps";
constexpr std::string_view betas = "is one of the two numbers in optimizer.betas here";
constexpr std::string_view run_dir = "is the option --run-dir of `trireme train` here";
constexpr std::string_view restart = "is the option --restart of `trireme train` here";
constexpr std::string_view recompute = "is model.recompute = \"block\" here";
constexpr std::string_view in_bf16 = "is precision.compute = \"bf16\" here";
constexpr std::string_view positions =
    "is model.max_context here, the maximum context length of the model. model.context is the "
    "length of training samples";
constexpr std::string_view no_rope =
    "is model.nope_layers here, a list of the blocks without rotary positions, from 0";
constexpr std::string_view rotary_share =
    "is model.rotary_dim here, the number of channels of each head that rotate";
constexpr std::string_view logit_divisor =
    "is model.logit_scale here, a factor of the logits. logits_scaling divides the logits: give 1 "
    "/ logits_scaling";
constexpr std::string_view no_attention_dropout =
    "has no counterpart: model.dropout applies only to the embedding and the residual branches";

constexpr std::string_view in_four_bits =
    "is [adapter] here, with adapter.base = \"nf4\": adapters on base weights in 4 bits";
constexpr std::string_view adds_tokens =
    "has no counterpart: add tokens to the model with `trireme import --add-token`";
constexpr std::string_view continues_adapter =
    "has no counterpart: continue the training of adapters with `trireme train --restart`";
constexpr std::string_view mixtures =
    "is set by model.experts here, the number of experts per block";
constexpr std::string_view dense_layers =
    "is model.dense_layers here, a list of the blocks that have one ordinary MLP instead of "
    "experts";
constexpr std::string_view no_capacity =
    "has no counterpart: an expert processes all tokens that chose it, and no token is dropped";
constexpr std::string_view balance_loss =
    "is train.balance_weight here, with train.balance = \"sample\". Equal values have different "
    "effects, because each layer here adds its mean loss over samples. The documentation of "
    "mixtures of "
    "experts explains how to convert values";
constexpr std::string_view balance_bias =
    "is train.balance_rate here, with train.balance = \"bias\"";
constexpr std::string_view by_scores = "is train.dpo_scores here: `trireme score` writes that file";
constexpr std::string_view next_token =
    "is not supported: train.objective offers next-token prediction, DPO, SimPO and ORPO on pairs "
    "of answers, KTO on labeled answers, and distillation from a teacher";

constexpr std::string_view tokenized =
    "is decided by `trireme tokenize --chat` here, whose option --learn chooses the messages that "
    "are trained on";
constexpr std::string_view no_early_stop =
    "has no counterpart: a run makes all of its steps. It writes the loss of each evaluation, and "
    "checkpoint.keep_every keeps checkpoints to choose from";
constexpr std::string_view events =
    "has no counterpart: a run writes its history as CSV and as events for TensorBoard "
    "(run.tensorboard), and `trireme report` draws plots";
constexpr std::string_view always_flash =
    "has no counterpart: attention never stores the matrix of all scores. data.attention = "
    "\"document\" limits it to one document";

constexpr std::array names = {
    // the model
    FamiliarName{"n_embd", "model.width", ""},
    FamiliarName{"n_embed", "model.width", ""},
    FamiliarName{"embed_dim", "model.width", ""},
    FamiliarName{"hidden_size", "model.width", ""},
    FamiliarName{"hidden_dim", "model.width", ""},
    FamiliarName{"d_model", "model.width", ""},
    FamiliarName{"dim", "model.width", ""},
    FamiliarName{"n_layer", "model.layers", ""},
    FamiliarName{"n_layers", "model.layers", ""},
    FamiliarName{"num_layers", "model.layers", ""},
    FamiliarName{"num_hidden_layers", "model.layers", ""},
    FamiliarName{"n_head", "model.heads", ""},
    FamiliarName{"n_heads", "model.heads", ""},
    FamiliarName{"num_heads", "model.heads", ""},
    FamiliarName{"num_attention_heads", "model.heads", ""},
    FamiliarName{"n_kv_head", "model.kv_heads", ""},
    FamiliarName{"n_kv_heads", "model.kv_heads", ""},
    FamiliarName{"num_kv_heads", "model.kv_heads", ""},
    FamiliarName{"num_key_value_heads", "model.kv_heads", ""},
    FamiliarName{"num_query_groups", "model.kv_heads", ""},
    FamiliarName{"intermediate_size", "model.ffn_width", ""},
    FamiliarName{"ffn_hidden_size", "model.ffn_width", ""},
    FamiliarName{"ffn_dim", "model.ffn_width", ""},
    FamiliarName{"n_inner", "model.ffn_width", ""},
    FamiliarName{"d_ff", "model.ffn_width", ""},
    FamiliarName{"num_experts", "model.experts", ""},
    FamiliarName{"num_local_experts", "model.experts", ""},
    FamiliarName{"n_routed_experts", "model.experts", ""},
    FamiliarName{"num_experts_per_tok", "model.experts_per_token", ""},
    FamiliarName{"moe_router_topk", "model.experts_per_token", ""},
    FamiliarName{"moe_top_k", "model.experts_per_token", ""},
    FamiliarName{"top_k", "model.experts_per_token", ""},
    FamiliarName{"moe_intermediate_size", "model.expert_width", ""},
    FamiliarName{"moe_ffn_hidden_size", "model.expert_width", ""},
    FamiliarName{"shared_expert_intermediate_size", "model.shared_expert_width", ""},
    FamiliarName{"moe_shared_expert_intermediate_size", "model.shared_expert_width", ""},
    FamiliarName{"norm_topk_prob", "model.norm_topk", ""},
    FamiliarName{"mlp_only_layers", "model.dense_layers", ""},
    FamiliarName{"moe_layer_freq", "model.dense_layers", dense_layers},
    FamiliarName{"first_k_dense_replace", "model.dense_layers", dense_layers},
    FamiliarName{"decoder_sparse_step", "model.dense_layers", dense_layers},
    FamiliarName{"capacity_factor", "", no_capacity},
    FamiliarName{"moe_expert_capacity_factor", "", no_capacity},
    FamiliarName{"aux_loss", "train.balance_weight", balance_loss},
    FamiliarName{"aux_loss_alpha", "train.balance_weight", balance_loss},
    FamiliarName{"moe_aux_loss_coeff", "train.balance_weight", balance_loss},
    FamiliarName{"router_aux_loss_coef", "train.balance_weight", balance_loss},
    FamiliarName{"moe_z_loss_coeff", "train.router_z", ""},
    FamiliarName{"router_z_loss_coef", "train.router_z", ""},
    FamiliarName{"moe_router_bias_update_rate", "train.balance_rate", balance_bias},
    FamiliarName{"vocab_size", "model.vocab", ""},
    FamiliarName{"padded_vocab_size", "model.vocab", ""},
    FamiliarName{"block_size", "model.context", ""},
    FamiliarName{"seq_len", "model.context", ""},
    FamiliarName{"seq_length", "model.context", ""},
    FamiliarName{"sequence_length", "model.context", ""},
    FamiliarName{"max_seq_len", "model.context", ""},
    FamiliarName{"max_seq_length", "model.context", ""},
    FamiliarName{"max_length", "model.context", ""},
    FamiliarName{"context_length", "model.context", ""},
    FamiliarName{"context_size", "model.context", ""},
    FamiliarName{"max_position_embeddings", "model.max_context", positions},
    FamiliarName{"n_positions", "model.max_context", positions},
    FamiliarName{"sequence_len", "model.context", ""},
    FamiliarName{"cutoff_len", "model.context", ""},
    FamiliarName{"n_ctx", "model.context", ""},
    FamiliarName{"normalization", "model.norm", ""},
    FamiliarName{"rms_norm_eps", "model.norm_eps", ""},
    FamiliarName{"layer_norm_eps", "model.norm_eps", ""},
    FamiliarName{"layer_norm_epsilon", "model.norm_eps", ""},
    FamiliarName{"layernorm_epsilon", "model.norm_eps", ""},
    FamiliarName{"norm_epsilon", "model.norm_eps", ""},
    FamiliarName{"hidden_act", "model.activation", ""},
    FamiliarName{"activation_function", "model.activation", ""},
    FamiliarName{"position_embedding_type", "model.positions", ""},
    FamiliarName{"rope_base", "model.rope_theta", ""},
    FamiliarName{"rotary_base", "model.rope_theta", ""},
    FamiliarName{"no_rope_layers", "model.nope_layers", no_rope},
    FamiliarName{"no_rope_layer_interval", "model.nope_layers", no_rope},
    FamiliarName{"partial_rotary_factor", "model.rotary_dim", rotary_share},
    FamiliarName{"rotary_pct", "model.rotary_dim", rotary_share},
    FamiliarName{"rotary_percent", "model.rotary_dim", rotary_share},
    FamiliarName{"embedding_multiplier", "model.embedding_scale", ""},
    FamiliarName{"residual_multiplier", "model.residual_scale", ""},
    FamiliarName{"attention_multiplier", "model.attention_scale", ""},
    FamiliarName{"logits_scaling", "model.logit_scale", logit_divisor},
    FamiliarName{"tie_word_embeddings", "model.tied", ""},
    FamiliarName{"tie_weights", "model.tied", ""},
    FamiliarName{"resid_pdrop", "model.dropout", ""},
    FamiliarName{"embd_pdrop", "model.dropout", ""},
    FamiliarName{"hidden_dropout", "model.dropout", ""},
    FamiliarName{"attn_pdrop", "model.dropout", no_attention_dropout},
    FamiliarName{"attention_dropout", "model.dropout", no_attention_dropout},
    FamiliarName{"gradient_checkpointing", "model.recompute", recompute},
    FamiliarName{"activation_checkpointing", "model.recompute", recompute},
    FamiliarName{"activation_checkpoint", "model.recompute", recompute},
    FamiliarName{"recompute_granularity", "model.recompute", recompute},
    FamiliarName{"model_name_or_path", "model.init_from", ""},
    FamiliarName{"base_model", "model.init_from", ""},
    FamiliarName{"finetuning_type", "adapter.rank",
                 "has no counterpart: adapter.rank = 0 trains the whole model, and a larger rank "
                 "trains adapters"},
    FamiliarName{"adapter_name_or_path", "", continues_adapter},
    FamiliarName{"lora_model_dir", "", continues_adapter},
    FamiliarName{"lora_target", "adapter.patterns", ""},
    FamiliarName{"target_parameters", "adapter.patterns",
                 "is adapter.patterns here: \"*.experts.*\" selects all experts"},
    FamiliarName{"additional_target", "adapter.also_train", ""},
    FamiliarName{"quantization_bit", "adapter.base", in_four_bits},
    FamiliarName{"new_special_tokens", "", adds_tokens},
    FamiliarName{"special_tokens", "", adds_tokens},
    FamiliarName{"add_tokens", "", adds_tokens},
    FamiliarName{"rl", "train.objective", ""},
    FamiliarName{"pref_loss", "train.objective", ""},
    FamiliarName{"pref_beta", "train.dpo_beta", ""},
    FamiliarName{"padding_free", "data.packing",
                 "is data.packing = \"documents\" with data.attention = \"document\" here"},
    FamiliarName{"sequence_parallel_degree", "parallel.seq", ""},
    // data, batch, length
    FamiliarName{"dataset", "data.path", ""},
    FamiliarName{"dataset_path", "data.path", ""},
    FamiliarName{"data_path", "data.path", ""},
    FamiliarName{"data_dir", "data.path", ""},
    FamiliarName{"train_files", "data.path", ""},
    FamiliarName{"val_data", "data.validation", ""},
    FamiliarName{"validation_split", "data.validation", ""},
    FamiliarName{"val_set_size", "data.validation", ""},
    FamiliarName{"val_size", "data.validation", ""},
    FamiliarName{"train_on_inputs", "", tokenized},
    FamiliarName{"train_on_prompt", "", tokenized},
    FamiliarName{"assistant_only_loss", "", tokenized},
    FamiliarName{"completion_only_loss", "", tokenized},
    FamiliarName{"mask_history", "", tokenized},
    FamiliarName{"shuffle", "train.seed",
                 "has no counterpart: samples are always in a random order, which train.seed sets"},
    FamiliarName{"roles_to_train", "", tokenized},
    FamiliarName{"train_on_eos", "",
                 "is the option --learn-end-of-turn of `trireme tokenize --chat` here"},
    FamiliarName{"chat_template", "", "is the option --template of `trireme tokenize --chat` here"},
    FamiliarName{"streaming", "data.path",
                 "has no counterpart: token files are read step by step, and never as a whole"},
    FamiliarName{"group_by_length", "data.packing",
                 "has no counterpart: data.packing = \"documents\" fills samples with whole "
                 "documents, so that little padding remains"},
    FamiliarName{"batch_size", "train.batch", a_step},
    FamiliarName{"global_batch_size", "train.batch", ""},
    FamiliarName{"train_batch_size", "train.batch", ""},
    FamiliarName{"micro_batch_size", "train.microbatch", ""},
    FamiliarName{"microbatch_size", "train.microbatch", ""},
    FamiliarName{"local_batch_size", "train.microbatch", ""},
    FamiliarName{"device_batch_size", "train.microbatch", ""},
    FamiliarName{"per_device_train_batch_size", "train.microbatch", ""},
    FamiliarName{"train_micro_batch_size_per_gpu", "train.microbatch", ""},
    FamiliarName{"gradient_accumulation_steps", "train.microbatch", accumulated},
    FamiliarName{"grad_accumulation_steps", "train.microbatch", accumulated},
    FamiliarName{"grad_accum_steps", "train.microbatch", accumulated},
    FamiliarName{"accumulate_grad_batches", "train.microbatch", accumulated},
    FamiliarName{"max_steps", "train.steps", ""},
    FamiliarName{"max_iters", "train.steps", ""},
    FamiliarName{"train_iters", "train.steps", ""},
    FamiliarName{"train_steps", "train.steps", ""},
    FamiliarName{"training_steps", "train.steps", ""},
    FamiliarName{"total_steps", "train.steps", ""},
    FamiliarName{"num_steps", "train.steps", ""},
    FamiliarName{"num_iterations", "train.steps", ""},
    FamiliarName{"max_tokens", "train.tokens", ""},
    FamiliarName{"train_tokens", "train.tokens", ""},
    FamiliarName{"epochs", "train.steps", no_epochs},
    FamiliarName{"max_epochs", "train.steps", no_epochs},
    FamiliarName{"num_epochs", "train.steps", no_epochs},
    FamiliarName{"num_train_epochs", "train.steps", no_epochs},
    FamiliarName{"random_seed", "train.seed", ""},
    FamiliarName{"manual_seed", "train.seed", ""},
    // optimizer and schedule
    FamiliarName{"learning_rate", "optimizer.lr", ""},
    FamiliarName{"max_lr", "optimizer.lr", ""},
    FamiliarName{"peak_lr", "optimizer.lr", ""},
    FamiliarName{"optim", "optimizer.name", ""},
    FamiliarName{"optimizer_type", "optimizer.name", ""},
    FamiliarName{"beta1", "optimizer.betas", betas},
    FamiliarName{"beta2", "optimizer.betas", betas},
    FamiliarName{"adam_beta1", "optimizer.betas", betas},
    FamiliarName{"adam_beta2", "optimizer.betas", betas},
    FamiliarName{"adam_eps", "optimizer.eps", ""},
    FamiliarName{"adam_epsilon", "optimizer.eps", ""},
    FamiliarName{"wd", "optimizer.weight_decay", ""},
    FamiliarName{"grad_clip", "optimizer.clip", ""},
    FamiliarName{"clip_grad", "optimizer.clip", ""},
    FamiliarName{"gradient_clipping", "optimizer.clip", ""},
    FamiliarName{"gradient_clip_val", "optimizer.clip", ""},
    FamiliarName{"max_grad_norm", "optimizer.clip", ""},
    FamiliarName{"max_norm", "optimizer.clip", ""},
    FamiliarName{"lr_scheduler_type", "schedule.shape", ""},
    FamiliarName{"lr_scheduler", "schedule.shape", ""},
    FamiliarName{"lr_decay_style", "schedule.shape", ""},
    FamiliarName{"decay_lr", "schedule.shape",
                 "is schedule.shape here, where \"constant\" means no decay"},
    FamiliarName{"warmup_iters", "schedule.warmup_steps", ""},
    FamiliarName{"lr_warmup_iters", "schedule.warmup_steps", ""},
    FamiliarName{"lr_warmup_steps", "schedule.warmup_steps", ""},
    FamiliarName{"num_warmup_steps", "schedule.warmup_steps", ""},
    FamiliarName{"warmup", "schedule.warmup_steps", in_steps},
    FamiliarName{"warmup_ratio", "schedule.warmup_steps", in_steps},
    FamiliarName{"lr_warmup_fraction", "schedule.warmup_steps", in_steps},
    FamiliarName{"lr_decay_iters", "schedule.decay_steps", ""},
    FamiliarName{"lr_decay_steps", "schedule.decay_steps", ""},
    FamiliarName{"min_learning_rate", "schedule.min_lr", ""},
    FamiliarName{"lr_min", "schedule.min_lr", ""},
    FamiliarName{"eta_min", "schedule.min_lr", ""},
    // numbers
    FamiliarName{"dtype", "precision.compute", ""},
    FamiliarName{"torch_dtype", "precision.compute", ""},
    FamiliarName{"mixed_precision", "precision.compute", ""},
    FamiliarName{"mixed_precision_param", "precision.compute", ""},
    FamiliarName{"bf16", "precision.compute", in_bf16},
    FamiliarName{"amp", "precision.compute", in_bf16},
    FamiliarName{"fp16", "precision.compute",
                 "has no counterpart: precision.compute = \"bf16\" has the range of f32 and needs "
                 "no loss scaling"},
    FamiliarName{"fp8", "precision.products", "is precision.products = \"fp8\" here"},
    FamiliarName{"fp8_format", "precision.products", "is precision.products = \"fp8\" here"},
    FamiliarName{"mixed_precision_reduce", "precision.reduce", ""},
    FamiliarName{"reduce_dtype", "precision.reduce", ""},
    FamiliarName{"allow_tf32", "precision.tf32", ""},
    // adapters
    FamiliarName{"lora", "adapter.rank", "is [adapter] here: set adapter.rank to train adapters"},
    FamiliarName{"peft", "adapter.rank", "is [adapter] here: set adapter.rank to train adapters"},
    FamiliarName{"lora_rank", "adapter.rank", ""},
    FamiliarName{"lora_r", "adapter.rank", ""},
    FamiliarName{"lora_alpha", "adapter.alpha", ""},
    FamiliarName{"lora_dropout", "adapter.dropout", ""},
    FamiliarName{"use_rslora", "adapter.rank_stabilized", ""},
    FamiliarName{"target_modules", "adapter.patterns", ""},
    FamiliarName{"lora_target_modules", "adapter.patterns", ""},
    FamiliarName{"lora_target_linear", "adapter.patterns",
                 "is the default of adapter.patterns here"},
    FamiliarName{"modules_to_save", "adapter.also_train", ""},
    FamiliarName{"use_dora", "adapter.method", "is adapter.method = \"dora\" here"},
    FamiliarName{"peft_use_dora", "adapter.method", "is adapter.method = \"dora\" here"},
    FamiliarName{"rank_pattern", "adapter_rank.rank",
                 "is [[adapter_rank]] here, with the keys pattern, rank and alpha"},
    FamiliarName{"alpha_pattern", "adapter_rank.alpha",
                 "is [[adapter_rank]] here, with the keys pattern, rank and alpha"},
    FamiliarName{"loraplus_lr_ratio", "adapter.b_lr_ratio", ""},
    FamiliarName{"lora_modules_to_save", "adapter.also_train", ""},
    FamiliarName{"resize_vocab", "", adds_tokens},
    FamiliarName{"additional_special_tokens", "", adds_tokens},

    // preferences
    FamiliarName{"dpo", "train.objective", "is train.objective = \"dpo\" here"},
    FamiliarName{"simpo", "train.objective", "is train.objective = \"simpo\" here"},
    FamiliarName{"orpo", "train.objective", "is train.objective = \"orpo\" here"},
    FamiliarName{"loss_type", "train.objective", ""},
    FamiliarName{"kto", "train.objective", "is train.objective = \"kto\" here"},
    FamiliarName{"desirable_weight", "train.kto_desirable_weight", ""},
    FamiliarName{"undesirable_weight", "train.kto_undesirable_weight", ""},
    FamiliarName{"gamma_beta_ratio", "train.simpo_gamma",
                 "is train.simpo_gamma here, which is the ratio times train.simpo_beta"},
    FamiliarName{"beta", "train.dpo_beta",
                 "is train.dpo_beta, train.simpo_beta, train.orpo_lambda or train.kto_beta here, "
                 "for the train.objective of that name"},
    FamiliarName{"ref_model", "train.dpo_scores", by_scores},
    FamiliarName{"reference_model", "train.dpo_scores", by_scores},
    FamiliarName{"precompute_ref_log_probs", "train.dpo_scores", by_scores},
    // teachers
    FamiliarName{"distillation", "train.objective", "is train.objective = \"distill\" here"},
    FamiliarName{"teacher_model", "distill.teacher", ""},
    FamiliarName{"kd_temperature", "distill.temperature", ""},
    FamiliarName{"kd_alpha", "distill.weight", ""},
    // ranks
    FamiliarName{"tensor_parallel_size", "zero.stage", no_tensor_axis},
    FamiliarName{"tensor_model_parallel_size", "zero.stage", no_tensor_axis},
    FamiliarName{"tensor_parallel_degree", "zero.stage", no_tensor_axis},
    FamiliarName{"pipeline_parallel_size", "parallel.pipe", ""},
    FamiliarName{"pipeline_model_parallel_size", "parallel.pipe", ""},
    FamiliarName{"pipeline_parallel_degree", "parallel.pipe", ""},
    FamiliarName{"context_parallel_size", "parallel.seq", ""},
    FamiliarName{"context_parallel_degree", "parallel.seq", ""},
    FamiliarName{"sequence_parallel_size", "parallel.seq", ""},
    FamiliarName{"ulysses_degree", "parallel.seq", ""},
    FamiliarName{"expert_parallel", "parallel.expert", ""},
    FamiliarName{"expert_parallel_size", "parallel.expert", ""},
    FamiliarName{"expert_parallel_degree", "parallel.expert", ""},
    FamiliarName{"expert_model_parallel_size", "parallel.expert", ""},
    FamiliarName{"ep_size", "parallel.expert", ""},
    FamiliarName{"data_parallel_size", "parallel.data", ""},
    FamiliarName{"data_parallel_shard_degree", "zero.shard", ""},
    FamiliarName{"zero_stage", "zero.stage", ""},
    FamiliarName{"zero_optimization", "zero.stage", ""},
    FamiliarName{"deepspeed", "zero.stage", "is the section [zero] here"},
    FamiliarName{"fsdp", "zero.stage", "is zero.stage = 3 here"},
    FamiliarName{"sharding_strategy", "zero.stage", ""},
    // the job
    FamiliarName{"eval_interval", "evaluate.every_steps", ""},
    FamiliarName{"eval_steps", "evaluate.every_steps", ""},
    FamiliarName{"eval_strategy", "evaluate.every_steps", ""},
    FamiliarName{"evaluation_strategy", "evaluate.every_steps", ""},
    FamiliarName{"save_strategy", "checkpoint.every_steps", ""},
    FamiliarName{"load_best_model_at_end", "checkpoint.keep_every", no_early_stop},
    FamiliarName{"early_stopping", "checkpoint.keep_every", no_early_stop},
    FamiliarName{"early_stopping_patience", "checkpoint.keep_every", no_early_stop},
    FamiliarName{"report_to", "run.tensorboard", events},
    FamiliarName{"flash_attention", "data.attention", always_flash},
    FamiliarName{"flash_attn", "data.attention", always_flash},
    FamiliarName{"attn_implementation", "data.attention", always_flash},
    FamiliarName{"eval_iters", "evaluate.batches", ""},
    FamiliarName{"save_steps", "checkpoint.every_steps", ""},
    FamiliarName{"save_interval", "checkpoint.every_steps", ""},
    FamiliarName{"checkpoint_interval", "checkpoint.every_steps", ""},
    FamiliarName{"save_total_limit", "checkpoint.keep_last", ""},
    FamiliarName{"keep_latest_k", "checkpoint.keep_last", ""},
    FamiliarName{"async_save", "checkpoint.async", ""},
    FamiliarName{"log_interval", "run.log_every", ""},
    FamiliarName{"logging_steps", "run.log_every", ""},
    FamiliarName{"log_freq", "run.log_every", ""},
    FamiliarName{"device", "run.backend", ""},
    FamiliarName{"num_threads", "run.threads", ""},
    FamiliarName{"num_workers", "run.threads",
                 "has no counterpart: samples are read when they are needed. run.threads sets the "
                 "number of threads that compute"},
    FamiliarName{"deterministic", "run.exactness", "is run.exactness = \"repeatable\" here"},
    FamiliarName{"out_dir", "", run_dir},
    FamiliarName{"output_dir", "", run_dir},
    FamiliarName{"save_dir", "", run_dir},
    FamiliarName{"resume", "", restart},
    FamiliarName{"resume_from_checkpoint", "", restart},
    // Features that are not a single key, or are not supported. These names are also found as one
    // word of a longer name.
    FamiliarName{"qlora", "", in_four_bits},
    FamiliarName{"load_in_4bit", "", in_four_bits},
    FamiliarName{"dora", "adapter.method", "is adapter.method = \"dora\" here"},
    FamiliarName{"moe", "", mixtures},
    FamiliarName{"ema", "", "is not supported: there is no moving average of the weights"},
    FamiliarName{"neftune", "", "is not supported: no noise is added to embeddings"},
    FamiliarName{"label_smoothing", "",
                 "has no counterpart: the loss is the cross-entropy of the next token"},
    FamiliarName{"wandb", "", events},
    FamiliarName{"ppo", "", next_token},
    FamiliarName{"grpo", "", next_token},
    FamiliarName{"rlhf", "", next_token},
    FamiliarName{"muon", "", "is not supported: optimizer.name lists the available optimizers"},
    FamiliarName{"sample_packing", "data.packing", ""},
};

constexpr std::array values = {
    FamiliarValue{"float32", "f32"},   FamiliarValue{"fp32", "f32"},
    FamiliarValue{"bfloat16", "bf16"}, FamiliarValue{"float64", "f64"},
    FamiliarValue{"double", "f64"},    FamiliarValue{"layernorm", "layer"},
    FamiliarValue{"rmsnorm", "rms"},   FamiliarValue{"silu", "swiglu"},
    FamiliarValue{"rope", "rotary"},   FamiliarValue{"gelu_new", "gelu"},
    FamiliarValue{"cpu", "host"},      FamiliarValue{"gpu", "cuda"},
    FamiliarValue{"qlora", "nf4"},
};

}  // namespace

std::span<const FamiliarName> familiar_names() {
  return names;
}

std::span<const FamiliarValue> familiar_values() {
  return values;
}

const FamiliarName* find_familiar(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  const std::string_view path = plain;
  const auto last = path.substr(path.rfind('.') + 1);  // npos + 1 is 0
  const auto whole = std::ranges::find(names, last, &FamiliarName::name);
  if (whole != names.end()) return &*whole;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = path.find_first_of("._", begin);
    const auto word = path.substr(begin, end - begin);
    const auto found = std::ranges::find_if(
        names, [&](const FamiliarName& f) { return f.key.empty() && f.name == word; });
    if (found != names.end()) return &*found;
  }
  return nullptr;
}

FamiliarChoice familiar_choice(std::string_view text) {
  const auto value = std::ranges::find(values, text, &FamiliarValue::value);
  const auto* const row = find_familiar(text);
  return {.ours = value == values.end() ? std::string_view() : value->ours,
          .unsupported = row && row->unsupported()};
}

std::string hint_of(const FamiliarName& f) {
  return f.says.empty() ? fmt::format("{} is {} here", f.name, f.key)
                        : fmt::format("{} {}", f.name, f.says);
}

}  // namespace trireme
