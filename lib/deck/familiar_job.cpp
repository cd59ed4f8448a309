// Names of other programs for ranks, outputs and features.
#include "lib/deck/familiar_tables.hpp"

namespace trireme {
namespace {

constexpr std::string_view no_tensor_axis =
    "has no counterpart: zero.stage = 3 shards weights over ranks, parallel.seq splits each "
    "sample, and parallel.pipe splits the layers";
constexpr std::string_view run_dir = "is the option --run-dir of `trireme train` here";
constexpr std::string_view restart = "is the option --restart of `trireme train` here";
constexpr std::string_view mixtures =
    "is set by model.experts here, the number of experts per block";
constexpr std::string_view next_token =
    "is not supported: train.objective offers next-token prediction, DPO, SimPO and ORPO on pairs "
    "of answers, KTO on labeled answers, and distillation from a teacher";
constexpr std::string_view best_at_end =
    "is checkpoint.keep_best here, which keeps the best checkpoints; `trireme export --best` reads "
    "the best one";
constexpr std::string_view events =
    "has no counterpart: a run writes its history as CSV and as events for TensorBoard "
    "(run.tensorboard), and `trireme report` draws plots";
constexpr std::string_view always_flash =
    "has no counterpart: attention never stores the matrix of all scores. data.attention = "
    "\"document\" limits it to one document";
constexpr std::string_view always_distributed =
    "is zero.stage = 1 here; zero.stage = 3 also shards gradients and weights";
constexpr std::string_view always_overlapped =
    "has no counterpart: communication overlaps with computation without a setting";
constexpr std::string_view virtual_stages =
    "is parallel.chunks here, with parallel.schedule = \"interleaved\": the number of model chunks "
    "per pipeline stage";
constexpr std::string_view signals =
    "is run.signal_grace here: a run saves a checkpoint after SIGTERM";
constexpr std::string_view no_compiler = "has no counterpart: all kernels are compiled in advance";
constexpr std::string_view from_launcher =
    "has no counterpart: the launcher (mpiexec or srun) starts the ranks, and parallel.data is "
    "their number without the other axes";

constexpr FamiliarName job_names[] = {
    // ranks
    {"tensor_parallel_size", "zero.stage", no_tensor_axis},
    {"tensor_model_parallel_size", "zero.stage", no_tensor_axis},
    {"tensor_parallel_degree", "zero.stage", no_tensor_axis},
    {"pipeline_parallel_size", "parallel.pipe", ""},
    {"pipeline_model_parallel_size", "parallel.pipe", ""},
    {"pipeline_parallel_degree", "parallel.pipe", ""},
    {"context_parallel_size", "parallel.seq", ""},
    {"context_parallel_degree", "parallel.seq", ""},
    {"sequence_parallel_size", "parallel.seq", ""},
    {"ulysses_degree", "parallel.seq", ""},
    {"expert_parallel", "parallel.expert", ""},
    {"expert_parallel_size", "parallel.expert", ""},
    {"expert_parallel_degree", "parallel.expert", ""},
    {"expert_model_parallel_size", "parallel.expert", ""},
    {"ep_size", "parallel.expert", ""},
    {"data_parallel_size", "parallel.data", ""},
    {"data_parallel_shard_degree", "zero.shard", ""},
    {"zero_stage", "zero.stage", ""},
    {"zero_optimization", "zero.stage", ""},
    {"deepspeed", "zero.stage", "is the section [zero] here"},
    {"fsdp", "zero.stage", "is zero.stage = 3 here"},
    {"sharding_strategy", "zero.stage", ""},
    {"enable_fsdp_float8_all_gather", "zero.gather_type", "is zero.gather_type = \"fp8\" here"},
    {"fp8_param_gather", "zero.gather_type", "is zero.gather_type = \"fp8\" here"},
    {"data_parallel_replicate_degree", "zero.shard",
     "is set by zero.shard here, the number of ranks that share a copy of the sharded state"},
    {"use_distributed_optimizer", "zero.stage", always_distributed},
    {"overlap_grad_reduce", "", always_overlapped},
    {"overlap_param_gather", "", always_overlapped},
    {"num_layers_per_virtual_pipeline_stage", "parallel.chunks", virtual_stages},
    {"virtual_pipeline_model_parallel_size", "parallel.chunks", virtual_stages},
    {"pipeline_parallel_schedule", "parallel.schedule", ""},
    {"pipeline_parallel_microbatch_size", "train.microbatch", ""},
    {"num_nodes", "parallel.data", from_launcher},
    {"devices", "parallel.data", from_launcher},
    // the job
    {"eval_interval", "evaluate.every_steps", ""},
    {"eval_steps", "evaluate.every_steps", ""},
    {"eval_strategy", "evaluate.every_steps", ""},
    {"evaluation_strategy", "evaluate.every_steps", ""},
    {"save_strategy", "checkpoint.every_steps", ""},
    {"load_best_model_at_end", "checkpoint.keep_best", best_at_end},
    {"metric_for_best_model", "evaluate.best_by", ""},
    {"early_stopping", "evaluate.patience", ""},
    {"early_stopping_patience", "evaluate.patience", ""},
    {"report_to", "run.tensorboard", events},
    {"flash_attention", "data.attention", always_flash},
    {"flash_attn", "data.attention", always_flash},
    {"attn_implementation", "data.attention", always_flash},
    {"eval_iters", "evaluate.batches", ""},
    {"save_steps", "checkpoint.every_steps", ""},
    {"save_interval", "checkpoint.every_steps", ""},
    {"checkpoint_interval", "checkpoint.every_steps", ""},
    {"save_total_limit", "checkpoint.keep_last", ""},
    {"keep_latest_k", "checkpoint.keep_last", ""},
    {"async_save", "checkpoint.async", ""},
    {"non_persistent_save_interval", "checkpoint.memory_every", ""},
    {"log_interval", "run.log_every", ""},
    {"logging_steps", "run.log_every", ""},
    {"log_freq", "run.log_every", ""},
    {"device", "run.backend", ""},
    {"num_threads", "run.threads", ""},
    {"num_workers", "run.threads",
     "has no counterpart: samples are read when they are needed. run.threads sets the "
     "number of threads that compute"},
    {"deterministic", "run.exactness", "is run.exactness = \"repeatable\" here"},
    {"out_dir", "", run_dir},
    {"output_dir", "", run_dir},
    {"save_dir", "", run_dir},
    {"resume", "", restart},
    {"resume_from_checkpoint", "", restart},
    {"eval_every", "evaluate.every_steps", ""},
    {"eval_batches", "evaluate.batches", ""},
    {"eval_subset_num_batches", "evaluate.batches", ""},
    {"evals_per_epoch", "evaluate.every_steps", "is evaluate.every_steps here, a number of steps"},
    {"saves_per_epoch", "checkpoint.every_steps",
     "is checkpoint.every_steps here, a number of steps"},
    {"save_every", "checkpoint.every_steps", ""},
    {"save_interval_unsharded", "checkpoint.every_steps", ""},
    {"save_num_checkpoints_to_keep", "checkpoint.keep_last", ""},
    {"keep_last_n", "checkpoint.keep_last", ""},
    {"always_save_checkpoint", "checkpoint.every_steps",
     "has no counterpart: a run saves a checkpoint every checkpoint.every_steps steps and at its "
     "end"},
    {"console_log_interval", "run.log_every", ""},
    {"log_every_n_steps", "run.log_every", ""},
    {"distributed_timeout_minutes", "run.hang_timeout", "is run.hang_timeout here, a duration"},
    {"exit_duration_in_mins", "run.time_limit", "is run.time_limit here, a duration"},
    {"exit_signal_handler", "run.signal_grace", signals},
    {"save", "checkpoint.every_steps",
     "is the option --run-dir of `trireme train` here. checkpoint.every_steps says how often a run "
     "saves"},
    {"load", "model.init_from",
     "is the option --restart of `trireme train` here, or model.init_from for the weights alone"},
    {"load_path", "", restart},
    {"save_folder", "", run_dir},
    {"dump_folder", "", run_dir},
    {"tensorboard_dir", "run.tensorboard", events},
    {"enable_wandb", "", events},
    // Features that are not a single key, or are not supported. These names are also found as one
    // word of a longer name.
    {"dora", "adapter.method", "is adapter.method = \"dora\" here"},
    {"moe", "", mixtures},
    {"neftune", "", "is not supported: no noise is added to embeddings"},
    {"label_smoothing", "", "has no counterpart: the loss is the cross-entropy of the next token"},
    {"wandb", "", events},
    {"ppo", "", next_token},
    {"grpo", "", next_token},
    {"rlhf", "", next_token},
    {"sample_packing", "data.packing", ""},
    {"compile", "", no_compiler},
};

}  // namespace

std::span<const FamiliarName> familiar_names_of_jobs() {
  return job_names;
}

}  // namespace trireme
