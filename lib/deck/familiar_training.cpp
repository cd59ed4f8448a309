// Names of other programs for data, batch, length, optimizer and objective.
#include "lib/deck/familiar_tables.hpp"

namespace trireme {
namespace {

constexpr std::string_view a_step =
    "is train.batch here, the number of samples per step over all ranks. train.microbatch is the "
    "number of samples per forward/backward pass on each data-parallel rank";
constexpr std::string_view accumulated =
    "is not a key here. The number of accumulated micro-batches is train.batch / (parallel.data * "
    "train.microbatch)";
constexpr std::string_view in_steps = "is schedule.warmup_steps here, a number of steps";
constexpr std::string_view ramp =
    "is train.batch_ramp here, a list such as [\"256 until 5e9 tokens\", \"512 until 20e9 "
    "tokens\"]. "
    "train.batch is the batch after the ramp";
constexpr std::string_view warmup_in_samples =
    "is schedule.warmup_tokens here, a number of tokens: samples * model.context";
constexpr std::string_view decay_in_samples =
    "is schedule.decay_tokens here, a number of tokens: samples * model.context. With shape = "
    "\"wsd\", this is the length of the decay alone";
constexpr std::string_view betas = "is one of the two numbers in optimizer.betas here";
constexpr std::string_view by_scores = "is train.dpo_scores here: `trireme score` writes that file";
constexpr std::string_view document_weights =
    "is data.loss_weights here for whole files. `trireme tokenize --weight` stores the weights of "
    "single documents";
constexpr std::string_view tokenized =
    "is decided by `trireme tokenize --chat` here, whose option --learn chooses the messages that "
    "are trained on";
constexpr std::string_view average_decay =
    "is train.ema here, the decay of a moving average of the weights, such as 0.999";
constexpr std::string_view min_ratio =
    "is schedule.min_lr here, a learning rate: optimizer.lr times the ratio";
constexpr std::string_view decay_share =
    "is schedule.decay_steps here, a number of steps: the fraction times train.steps. With shape = "
    "\"wsd\", the decay is at the end of the run";
constexpr std::string_view cooldown = "is schedule.decay_steps here, with shape = \"wsd\"";
constexpr std::string_view stable =
    "is set by schedule.decay_steps here, with shape = \"wsd\": the learning rate is stable "
    "between the warmup and the decay";
constexpr std::string_view scale_modes =
    "is optimizer.matrix_scale here. \"shape_scaling\" is \"sqrt(max(1, out/in))\", "
    "\"unit_rms_norm\" is \"sqrt(out/in)\", and \"spectral\" with an extra scale factor of 0.2 is "
    "\"0.2 sqrt(max(out, in))\"";
constexpr std::string_view extra_scale =
    "is part of optimizer.matrix_scale here: \"0.2 sqrt(max(out, in))\" contains the factor 0.2. "
    "Multiply optimizer.lr by other factors";
constexpr std::string_view adjusted_rate =
    "is optimizer.matrix_scale here. \"original\" is \"sqrt(max(1, out/in))\", and "
    "\"match_rms_adamw\" is \"0.2 sqrt(max(out, in))\"";
constexpr std::string_view five_steps =
    "has no counterpart: Muon always takes five Newton-Schulz steps. optimizer.muon_polynomials "
    "chooses their polynomials";
constexpr std::string_view ns_numbers =
    "is optimizer.muon_polynomials here, which takes a name instead of numbers: \"jordan\" is "
    "(3.4445, -4.7750, 2.0315) in all five steps, and \"polar-express\" is another polynomial in "
    "each step";
constexpr std::string_view ns_epsilon =
    "has no counterpart: each value of optimizer.muon_polynomials has its own epsilon, 1e-7 with "
    "\"jordan\" and 1e-6 with \"polar-express\"";
constexpr std::string_view clipped_attention =
    "has no counterpart: optimizer.clip limits the norm of the gradient, and no setting clips "
    "attention";
constexpr std::string_view largest_matrix =
    "has no counterpart: shampoo updates matrices of all sizes. optimizer.adamw_patterns chooses "
    "matrices that AdamW updates instead";
constexpr std::string_view coefficients =
    "is optimizer.muon_polynomials here. \"simple\" is \"jordan\", and \"polar_express\" is "
    "\"polar-express\". \"quintic\" has no counterpart";
constexpr std::string_view matrix_rate =
    "is optimizer.lr here, the learning rate of matrices. optimizer.adamw_lr is that of other "
    "parameters";
constexpr std::string_view split_qkv =
    "has no counterpart: queries, keys and values are always matrices of their own. "
    "optimizer.matrix_heads = \"each\" also divides them into heads";
constexpr std::string_view constant_momentum =
    "has no counterpart: optimizer.matrix_momentum is constant";
constexpr std::string_view in_samples =
    "is train.tokens here, a number of tokens: samples * model.context";
constexpr std::string_view held_out =
    "is data.validation here, the fraction of each file that is held out, such as 0.03. There is "
    "no test split: evaluate other files with `trireme evaluate --data`";
constexpr std::string_view data_mixture =
    "is data.path with data.weights here: a list of files, and a list with the share of each";
constexpr std::string_view no_cache =
    "has no counterpart: token files are read in place, and the order of samples is computed "
    "without an index";
constexpr std::string_view resets =
    "is data.attention = \"document\" here, which also begins positions at 0 in each document";
constexpr std::string_view eod_masks =
    "is data.separator_masks here: the first token after the end of a document is not in the loss";
constexpr std::string_view tokenizer_of_files =
    "is given to `trireme tokenize` here, which stores the tokenizer in the token files";
constexpr std::string_view in_tokenize =
    "has no counterpart: `trireme tokenize` prepares data before the training";
constexpr std::string_view watchdog =
    "is train.skip_above here, which skips steps with an unusual loss, with train.max_skipped and "
    "train.rollback";
constexpr std::string_view in_ema =
    "is train.ema here, the decay of a moving average of the weights. The average changes in each "
    "step";

constexpr FamiliarName training_names[] = {
    // data, batch, length
    {"dataset", "data.path", ""},
    {"dataset_path", "data.path", ""},
    {"data_path", "data.path", ""},
    {"data_dir", "data.path", ""},
    {"train_files", "data.path", ""},
    {"loss_weight", "data.loss_weights", ""},
    {"sample_weight", "data.loss_weights", document_weights},
    {"sample_weights", "data.loss_weights", document_weights},
    {"example_weight", "data.loss_weights", document_weights},
    {"example_weights", "data.loss_weights", document_weights},
    {"val_data", "data.validation", ""},
    {"validation_split", "data.validation", ""},
    {"val_set_size", "data.validation", ""},
    {"val_size", "data.validation", ""},
    {"train_on_inputs", "", tokenized},
    {"train_on_prompt", "", tokenized},
    {"assistant_only_loss", "", tokenized},
    {"completion_only_loss", "", tokenized},
    {"mask_history", "", tokenized},
    {"shuffle", "train.seed",
     "has no counterpart: samples are always in a random order, which train.seed sets"},
    {"roles_to_train", "", tokenized},
    {"train_on_eos", "", "is the option --learn-end-of-turn of `trireme tokenize --chat` here"},
    {"chat_template", "", "is the option --template of `trireme tokenize --chat` here"},
    {"streaming", "data.path",
     "has no counterpart: token files are read step by step, and never as a whole"},
    {"group_by_length", "data.packing",
     "has no counterpart: data.packing = \"documents\" fills samples with whole "
     "documents, so that little padding remains"},
    {"batch_size", "train.batch", a_step},
    {"global_batch_size", "train.batch", ""},
    {"train_batch_size", "train.batch", ""},
    {"rampup_batch_size", "train.batch_ramp", ramp},
    {"step_batch_size_schedule", "train.batch_ramp", ramp},
    {"batch_size_schedule", "train.batch_ramp", ramp},
    {"batch_size_warmup", "train.batch_ramp", ramp},
    {"micro_batch_size", "train.microbatch", ""},
    {"microbatch_size", "train.microbatch", ""},
    {"local_batch_size", "train.microbatch", ""},
    {"device_batch_size", "train.microbatch", ""},
    {"per_device_train_batch_size", "train.microbatch", ""},
    {"train_micro_batch_size_per_gpu", "train.microbatch", ""},
    {"gradient_accumulation_steps", "train.microbatch", accumulated},
    {"grad_accumulation_steps", "train.microbatch", accumulated},
    {"grad_accum_steps", "train.microbatch", accumulated},
    {"accumulate_grad_batches", "train.microbatch", accumulated},
    {"max_steps", "train.steps", ""},
    {"max_iters", "train.steps", ""},
    {"train_iters", "train.steps", ""},
    {"train_steps", "train.steps", ""},
    {"training_steps", "train.steps", ""},
    {"total_steps", "train.steps", ""},
    {"num_steps", "train.steps", ""},
    {"num_iterations", "train.steps", ""},
    {"max_tokens", "train.tokens", ""},
    {"train_tokens", "train.tokens", ""},
    {"ema_decay", "train.ema", ""},
    {"moving_average_decay", "train.ema", ""},
    {"use_ema", "train.ema", average_decay},
    {"ema_enabled", "train.ema", average_decay},
    {"evaluate_ema_weights_instead", "evaluate.ema", ""},
    {"validate_original_weights", "evaluate.ema", ""},
    {"max_epochs", "train.epochs", ""},
    {"num_epochs", "train.epochs", ""},
    {"num_train_epochs", "train.epochs", ""},
    {"random_seed", "train.seed", ""},
    {"manual_seed", "train.seed", ""},
    {"datasets", "data.path", ""},
    {"data_paths", "data.path", ""},
    {"train_data_path", "data.path", data_mixture},
    {"blend", "data.weights", data_mixture},
    {"data_blend", "data.weights", data_mixture},
    {"data_mix", "data.weights", data_mixture},
    {"mixture", "data.weights", data_mixture},
    {"dataset_weights", "data.weights", ""},
    {"data_weights", "data.weights", ""},
    {"mixture_weights", "data.weights", ""},
    {"sampling_weights", "data.weights", ""},
    {"interleave_probs", "data.weights", ""},
    {"split", "data.validation", held_out},
    {"valid_data_path", "data.validation", ""},
    {"test_datasets", "data.validation", ""},
    {"val_split_fraction", "data.validation", ""},
    {"data_cache_path", "", no_cache},
    {"dataset_prepared_path", "", no_cache},
    {"dataset_processes", "", in_tokenize},
    {"mock_data", "", in_tokenize},
    {"eod_mask_loss", "data.separator_masks", eod_masks},
    {"reset_position_ids", "data.attention", resets},
    {"reset_attention_mask", "data.attention", resets},
    {"pad_to_sequence_len", "data.packing",
     "has no counterpart: a sample always has model.context tokens, with padding if data.packing = "
     "\"documents\""},
    {"tokenizer_type", "", tokenizer_of_files},
    {"tokenizer_model", "", tokenizer_of_files},
    {"tokenizer_path", "", tokenizer_of_files},
    {"hf_assets_path", "", tokenizer_of_files},
    {"vocab_file", "", tokenizer_of_files},
    {"merge_file", "", tokenizer_of_files},
    {"global_train_batch_size", "train.batch", ""},
    {"device_train_microbatch_size", "train.microbatch", ""},
    {"rank_microbatch_size", "train.microbatch",
     "is train.microbatch here, in samples rather than tokens"},
    {"train_samples", "train.tokens", in_samples},
    {"max_duration", "train.steps", "is train.steps, train.tokens or train.epochs here"},
    {"model_ema", "train.ema", average_decay},
    {"ema_beta", "train.ema", ""},
    {"ema_rate", "train.ema", ""},
    {"ema_momentum", "train.ema", ""},
    {"ema_update_every", "train.ema", in_ema},
    {"ema_update_interval", "train.ema", in_ema},
    {"iterations_to_skip", "train.skip_steps", ""},
    {"loss_watchdog_threshold", "train.skip_above", watchdog},
    {"loss_watchdog_patience", "train.skip_above", watchdog},
    // optimizer and schedule
    {"learning_rate", "optimizer.lr", ""},
    {"max_lr", "optimizer.lr", ""},
    {"peak_lr", "optimizer.lr", ""},
    {"optim", "optimizer.name", ""},
    {"optimizer_type", "optimizer.name", ""},
    {"beta1", "optimizer.betas", betas},
    {"beta2", "optimizer.betas", betas},
    {"adam_beta1", "optimizer.betas", betas},
    {"adam_beta2", "optimizer.betas", betas},
    {"adam_betas", "optimizer.betas", ""},
    {"adamw_betas", "optimizer.betas", ""},
    {"adam_eps", "optimizer.eps", ""},
    {"adamw_eps", "optimizer.eps", ""},
    {"adam_epsilon", "optimizer.eps", ""},
    {"wd", "optimizer.weight_decay", ""},
    {"grad_clip", "optimizer.clip", ""},
    {"clip_grad", "optimizer.clip", ""},
    {"gradient_clipping", "optimizer.clip", ""},
    {"gradient_clip_val", "optimizer.clip", ""},
    {"max_grad_norm", "optimizer.clip", ""},
    {"max_norm", "optimizer.clip", ""},
    {"adamw", "", "is optimizer.name = \"adamw\" here"},
    {"lion", "", "is optimizer.name = \"lion\" here"},
    {"sgd", "", "is optimizer.name = \"sgd\" here"},
    {"muon", "", "is optimizer.name = \"muon\" here"},
    {"shampoo", "", "is optimizer.name = \"shampoo\" here"},
    {"muon_lr", "optimizer.lr", matrix_rate},
    {"matrix_lr", "optimizer.lr", matrix_rate},
    {"muon_wd", "optimizer.weight_decay", ""},
    {"muon_weight_decay", "optimizer.weight_decay", ""},
    {"muon_beta", "optimizer.matrix_momentum", ""},
    {"muon_momentum", "optimizer.matrix_momentum", ""},
    {"muon_momentum_start", "optimizer.matrix_momentum", constant_momentum},
    {"muon_momentum_warmup_start", "optimizer.matrix_momentum", constant_momentum},
    {"muon_momentum_warmup_steps", "optimizer.matrix_momentum", constant_momentum},
    {"muon_nesterov", "optimizer.matrix_nesterov", ""},
    {"muon_use_nesterov", "optimizer.matrix_nesterov", ""},
    {"use_nesterov", "optimizer.matrix_nesterov",
     "is optimizer.matrix_nesterov here, or optimizer.nesterov for sgd"},
    {"muon_scale", "optimizer.matrix_scale", ""},
    {"muon_scale_mode", "optimizer.matrix_scale", scale_modes},
    {"scale_mode", "optimizer.matrix_scale", scale_modes},
    {"muon_extra_scale_factor", "optimizer.matrix_scale", extra_scale},
    {"adjust_lr_fn", "optimizer.matrix_scale", adjusted_rate},
    {"muon_adjust_lr_fn", "optimizer.matrix_scale", adjusted_rate},
    {"muon_split_qkv", "optimizer.matrix_heads", split_qkv},
    {"ns_steps", "optimizer.muon_polynomials", five_steps},
    {"num_ns_steps", "optimizer.muon_polynomials", five_steps},
    {"muon_ns_steps", "optimizer.muon_polynomials", five_steps},
    {"muon_num_ns_steps", "optimizer.muon_polynomials", five_steps},
    {"muon_backend_steps", "optimizer.muon_polynomials", five_steps},
    {"ns_coefficients", "optimizer.muon_polynomials", ns_numbers},
    {"ns_epsilon", "optimizer.muon_polynomials", ns_epsilon},
    {"ns_eps", "optimizer.muon_polynomials", ns_epsilon},
    {"muon_eps", "optimizer.muon_polynomials", ns_epsilon},
    {"muon_coefficient_type", "optimizer.muon_polynomials", coefficients},
    {"muon_fp32_matmul_prec", "precision.compute",
     "is precision.compute here, in which Muon also computes its Newton-Schulz steps"},
    {"muon_tp_mode", "", "has no counterpart: each matrix is updated as a whole"},
    {"muon_scalar_optimizer", "optimizer.adamw_patterns",
     "is always AdamW here: it updates all parameters that are not matrices, and those of "
     "optimizer.adamw_patterns"},
    {"ns_method", "", "has no counterpart: Newton-Schulz steps multiply the whole matrix"},
    {"adam_lr", "optimizer.adamw_lr", ""},
    {"scalar_lr", "optimizer.adamw_lr", ""},
    {"embedding_lr", "optimizer.adamw_lr", ""},
    {"unembedding_lr", "optimizer.adamw_lr", ""},
    {"head_lr", "optimizer.adamw_lr", ""},
    {"adamw_wd", "optimizer.adamw_weight_decay", ""},
    {"adam_wd", "optimizer.adamw_weight_decay", ""},
    {"adam_weight_decay", "optimizer.weight_decay",
     "is optimizer.weight_decay here, or optimizer.adamw_weight_decay with muon and shampoo"},
    {"qk_clip", "", clipped_attention},
    {"max_preconditioner_dim", "optimizer.adamw_patterns", largest_matrix},
    {"preconditioner_decay", "optimizer.shampoo_beta", ""},
    {"precondition_frequency", "optimizer.shampoo_every", ""},
    {"preconditioning_compute_steps", "optimizer.shampoo_every", ""},
    {"lr_scheduler_type", "schedule.shape", ""},
    {"lr_scheduler", "schedule.shape", ""},
    {"lr_decay_style", "schedule.shape", ""},
    {"decay_lr", "schedule.shape", "is schedule.shape here, where \"constant\" means no decay"},
    {"warmup_iters", "schedule.warmup_steps", ""},
    {"lr_warmup_iters", "schedule.warmup_steps", ""},
    {"lr_warmup_steps", "schedule.warmup_steps", ""},
    {"num_warmup_steps", "schedule.warmup_steps", ""},
    {"warmup", "schedule.warmup_steps", in_steps},
    {"warmup_ratio", "schedule.warmup_steps", in_steps},
    {"lr_warmup_fraction", "schedule.warmup_steps", in_steps},
    {"lr_warmup_samples", "schedule.warmup_tokens", warmup_in_samples},
    {"lr_warmup_tokens", "schedule.warmup_tokens", ""},
    {"lr_decay_iters", "schedule.decay_steps", ""},
    {"lr_decay_steps", "schedule.decay_steps", ""},
    {"lr_decay_samples", "schedule.decay_tokens", decay_in_samples},
    {"lr_decay_tokens", "schedule.decay_tokens", ""},
    {"lr_wsd_decay_iters", "schedule.decay_steps", ""},
    {"lr_wsd_decay_samples", "schedule.decay_tokens", decay_in_samples},
    {"num_decay_steps", "schedule.decay_steps", ""},
    {"min_learning_rate", "schedule.min_lr", ""},
    {"lr_min", "schedule.min_lr", ""},
    {"eta_min", "schedule.min_lr", ""},
    {"min_lr_ratio", "schedule.min_lr", min_ratio},
    {"min_lr_rate", "schedule.min_lr", min_ratio},
    {"min_lr_factor", "schedule.min_lr", min_ratio},
    {"cosine_min_lr_ratio", "schedule.min_lr", min_ratio},
    {"alpha_f", "schedule.min_lr", min_ratio},
    {"final_lr", "schedule.min_lr", ""},
    {"decay_fraction", "schedule.decay_steps", decay_share},
    {"decay_ratio", "schedule.decay_steps", decay_share},
    {"cooldown_fraction", "schedule.decay_steps", decay_share},
    {"cooldown_steps", "schedule.decay_steps", cooldown},
    {"cooldown", "schedule.decay_steps", cooldown},
    {"cooldown_iters", "schedule.decay_steps", cooldown},
    {"warmdown_iters", "schedule.decay_steps", cooldown},
    {"num_stable_steps", "schedule.decay_steps", stable},
    {"stable_steps", "schedule.decay_steps", stable},
    {"t_warmup", "schedule.warmup_steps", ""},
    {"t_max", "schedule.decay_steps", ""},
    {"warmup_fraction", "schedule.warmup_steps", in_steps},
    {"decay_type", "schedule.shape", ""},
    {"scheduler", "schedule.shape", ""},
    {"lr_wsd_decay_style", "schedule.shape",
     "has no counterpart: with schedule.shape = \"wsd\", the decay is linear"},
    // preferences
    {"dpo", "train.objective", "is train.objective = \"dpo\" here"},
    {"simpo", "train.objective", "is train.objective = \"simpo\" here"},
    {"orpo", "train.objective", "is train.objective = \"orpo\" here"},
    {"loss_type", "train.objective", ""},
    {"kto", "train.objective", "is train.objective = \"kto\" here"},
    {"desirable_weight", "train.kto_desirable_weight", ""},
    {"undesirable_weight", "train.kto_undesirable_weight", ""},
    {"gamma_beta_ratio", "train.simpo_gamma",
     "is train.simpo_gamma here, which is the ratio times train.simpo_beta"},
    {"beta", "train.dpo_beta",
     "is train.dpo_beta, train.simpo_beta, train.orpo_lambda or train.kto_beta here, "
     "for the train.objective of that name"},
    {"ref_model", "train.dpo_scores", by_scores},
    {"reference_model", "train.dpo_scores", by_scores},
    {"precompute_ref_log_probs", "train.dpo_scores", by_scores},
    // teachers
    {"distillation", "train.objective", "is train.objective = \"distill\" here"},
    {"teacher_model", "distill.teacher", ""},
    {"kd_temperature", "distill.temperature", ""},
    {"kd_alpha", "distill.weight", ""},
};

}  // namespace

std::span<const FamiliarName> familiar_names_of_training() {
  return training_names;
}

}  // namespace trireme
