// Names of other programs for the model, its number formats and its adapters.
#include "lib/deck/familiar_tables.hpp"

namespace trireme {
namespace {

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
constexpr std::string_view dense_layers =
    "is model.dense_layers here, a list of the blocks that have one ordinary MLP instead of "
    "experts";
constexpr std::string_view no_capacity =
    "has no counterpart: an expert processes all tokens that chose it, and no token is dropped";
constexpr std::string_view balance_loss =
    "is train.balance_weight here, with train.balance = \"sample\". Equal values have different "
    "effects, because each layer here adds its mean loss over samples. The documentation of "
    "mixtures of experts explains how to convert values";
constexpr std::string_view balance_bias =
    "is train.balance_rate here, with train.balance = \"bias\"";
constexpr std::string_view no_bias = "is model.bias here, with the opposite value";
constexpr std::string_view untied = "is model.tied here, with the opposite value";
constexpr std::string_view width_ratio =
    "is model.ffn_width here, a number of channels: the ratio times model.width";
constexpr std::string_view trained_only =
    "is [[freeze]] here: a rule freezes the parameters whose names match freeze.pattern";

constexpr FamiliarName model_names[] = {
    // the model
    {"n_embd", "model.width", ""},
    {"n_embed", "model.width", ""},
    {"embed_dim", "model.width", ""},
    {"hidden_size", "model.width", ""},
    {"hidden_dim", "model.width", ""},
    {"d_model", "model.width", ""},
    {"dim", "model.width", ""},
    {"n_layer", "model.layers", ""},
    {"n_layers", "model.layers", ""},
    {"num_layers", "model.layers", ""},
    {"num_hidden_layers", "model.layers", ""},
    {"n_head", "model.heads", ""},
    {"n_heads", "model.heads", ""},
    {"num_heads", "model.heads", ""},
    {"num_attention_heads", "model.heads", ""},
    {"n_kv_head", "model.kv_heads", ""},
    {"n_kv_heads", "model.kv_heads", ""},
    {"num_kv_heads", "model.kv_heads", ""},
    {"num_key_value_heads", "model.kv_heads", ""},
    {"num_query_groups", "model.kv_heads", ""},
    {"intermediate_size", "model.ffn_width", ""},
    {"ffn_hidden_size", "model.ffn_width", ""},
    {"ffn_dim", "model.ffn_width", ""},
    {"n_inner", "model.ffn_width", ""},
    {"d_ff", "model.ffn_width", ""},
    {"num_experts", "model.experts", ""},
    {"num_local_experts", "model.experts", ""},
    {"n_routed_experts", "model.experts", ""},
    {"num_experts_per_tok", "model.experts_per_token", ""},
    {"moe_router_topk", "model.experts_per_token", ""},
    {"moe_top_k", "model.experts_per_token", ""},
    {"top_k", "model.experts_per_token", ""},
    {"moe_intermediate_size", "model.expert_width", ""},
    {"moe_ffn_hidden_size", "model.expert_width", ""},
    {"shared_expert_intermediate_size", "model.shared_expert_width", ""},
    {"moe_shared_expert_intermediate_size", "model.shared_expert_width", ""},
    {"norm_topk_prob", "model.norm_topk", ""},
    {"mlp_only_layers", "model.dense_layers", ""},
    {"moe_layer_freq", "model.dense_layers", dense_layers},
    {"first_k_dense_replace", "model.dense_layers", dense_layers},
    {"decoder_sparse_step", "model.dense_layers", dense_layers},
    {"capacity_factor", "", no_capacity},
    {"moe_expert_capacity_factor", "", no_capacity},
    {"aux_loss", "train.balance_weight", balance_loss},
    {"aux_loss_alpha", "train.balance_weight", balance_loss},
    {"moe_aux_loss_coeff", "train.balance_weight", balance_loss},
    {"router_aux_loss_coef", "train.balance_weight", balance_loss},
    {"moe_z_loss_coeff", "train.router_z", ""},
    {"router_z_loss_coef", "train.router_z", ""},
    {"moe_router_bias_update_rate", "train.balance_rate", balance_bias},
    {"vocab_size", "model.vocab", ""},
    {"padded_vocab_size", "model.vocab", ""},
    {"block_size", "model.context", ""},
    {"seq_len", "model.context", ""},
    {"seq_length", "model.context", ""},
    {"sequence_length", "model.context", ""},
    {"max_seq_len", "model.context", ""},
    {"max_seq_length", "model.context", ""},
    {"max_length", "model.context", ""},
    {"context_length", "model.context", ""},
    {"context_size", "model.context", ""},
    {"max_position_embeddings", "model.max_context", positions},
    {"n_positions", "model.max_context", positions},
    {"sequence_len", "model.context", ""},
    {"cutoff_len", "model.context", ""},
    {"n_ctx", "model.context", ""},
    {"normalization", "model.norm", ""},
    {"rms_norm_eps", "model.norm_eps", ""},
    {"layer_norm_eps", "model.norm_eps", ""},
    {"layer_norm_epsilon", "model.norm_eps", ""},
    {"layernorm_epsilon", "model.norm_eps", ""},
    {"norm_epsilon", "model.norm_eps", ""},
    {"hidden_act", "model.activation", ""},
    {"activation_function", "model.activation", ""},
    {"position_embedding_type", "model.positions", ""},
    {"rope_base", "model.rope_theta", ""},
    {"rotary_base", "model.rope_theta", ""},
    {"no_rope_layers", "model.nope_layers", no_rope},
    {"no_rope_layer_interval", "model.nope_layers", no_rope},
    {"partial_rotary_factor", "model.rotary_dim", rotary_share},
    {"rotary_pct", "model.rotary_dim", rotary_share},
    {"rotary_percent", "model.rotary_dim", rotary_share},
    {"embedding_multiplier", "model.embedding_scale", ""},
    {"residual_multiplier", "model.residual_scale", ""},
    {"attention_multiplier", "model.attention_scale", ""},
    {"logits_scaling", "model.logit_scale", logit_divisor},
    {"tie_word_embeddings", "model.tied", ""},
    {"tie_weights", "model.tied", ""},
    {"resid_pdrop", "model.dropout", ""},
    {"embd_pdrop", "model.dropout", ""},
    {"hidden_dropout", "model.dropout", ""},
    {"attn_pdrop", "model.dropout", no_attention_dropout},
    {"attention_dropout", "model.dropout", no_attention_dropout},
    {"gradient_checkpointing", "model.recompute", recompute},
    {"activation_checkpointing", "model.recompute", recompute},
    {"activation_checkpoint", "model.recompute", recompute},
    {"recompute_granularity", "model.recompute", recompute},
    {"model_name_or_path", "model.init_from", ""},
    {"base_model", "model.init_from", ""},
    {"finetuning_type", "adapter.rank",
     "has no counterpart: adapter.rank = 0 trains the whole model, and a larger rank "
     "trains adapters"},
    {"adapter_name_or_path", "", continues_adapter},
    {"lora_model_dir", "", continues_adapter},
    {"lora_target", "adapter.patterns", ""},
    {"target_parameters", "adapter.patterns",
     "is adapter.patterns here: \"*.experts.*\" selects all experts"},
    {"additional_target", "adapter.also_train", ""},
    {"quantization_bit", "adapter.base", in_four_bits},
    {"new_special_tokens", "", adds_tokens},
    {"special_tokens", "", adds_tokens},
    {"add_tokens", "", adds_tokens},
    {"rl", "train.objective", ""},
    {"pref_loss", "train.objective", ""},
    {"pref_beta", "train.dpo_beta", ""},
    {"padding_free", "data.packing",
     "is data.packing = \"documents\" with data.attention = \"document\" here"},
    {"sequence_parallel_degree", "parallel.seq", ""},
    {"add_qkv_bias", "model.qkv_bias", ""},
    {"qk_layernorm", "model.qk_norm", ""},
    {"kv_channels", "model.head_dim", ""},
    {"mlp_hidden_size", "model.ffn_width", ""},
    {"mlp_ratio", "model.ffn_width", width_ratio},
    {"max_sequence_length", "model.context", ""},
    {"max_target_sequence_length", "model.context", ""},
    {"disable_bias_linear", "model.bias", no_bias},
    {"add_bias_linear", "model.bias", ""},
    {"untie_embeddings_and_output_weights", "model.tied", untied},
    {"weight_tying", "model.tied", ""},
    {"tie_embeddings", "model.tied", ""},
    {"recompute_method", "model.recompute", recompute},
    {"recompute_num_layers", "model.recompute", recompute},
    {"sliding_window", "model.window", ""},
    {"initial_load_path", "model.init_from", ""},
    {"pretrained_checkpoint", "model.init_from", ""},
    // numbers
    {"dtype", "precision.compute", ""},
    {"torch_dtype", "precision.compute", ""},
    {"mixed_precision", "precision.compute", ""},
    {"mixed_precision_param", "precision.compute", ""},
    {"bf16", "precision.compute", in_bf16},
    {"amp", "precision.compute", in_bf16},
    {"fp16", "precision.compute",
     "has no counterpart: precision.compute = \"bf16\" has the range of f32 and needs "
     "no loss scaling"},
    {"fp8", "precision.products", "is precision.products = \"fp8\" here"},
    {"fp8_format", "precision.products", "is precision.products = \"fp8\" here"},
    {"first_last_layers_bf16", "precision.fp8_skip_first",
     "is precision.fp8_skip_first and precision.fp8_skip_last here, numbers of blocks"},
    {"num_layers_at_start_in_bf16", "precision.fp8_skip_first", ""},
    {"num_layers_at_end_in_bf16", "precision.fp8_skip_last", ""},
    {"mixed_precision_reduce", "precision.reduce", ""},
    {"reduce_dtype", "precision.reduce", ""},
    {"allow_tf32", "precision.tf32", ""},
    // adapters
    {"lora", "adapter.rank", "is [adapter] here: set adapter.rank to train adapters"},
    {"peft", "adapter.rank", "is [adapter] here: set adapter.rank to train adapters"},
    {"lora_rank", "adapter.rank", ""},
    {"lora_r", "adapter.rank", ""},
    {"lora_alpha", "adapter.alpha", ""},
    {"lora_dropout", "adapter.dropout", ""},
    {"use_rslora", "adapter.rank_stabilized", ""},
    {"target_modules", "adapter.patterns", ""},
    {"lora_target_modules", "adapter.patterns", ""},
    {"lora_target_linear", "adapter.patterns", "is the default of adapter.patterns here"},
    {"modules_to_save", "adapter.also_train", ""},
    {"use_dora", "adapter.method", "is adapter.method = \"dora\" here"},
    {"peft_use_dora", "adapter.method", "is adapter.method = \"dora\" here"},
    {"rank_pattern", "adapter_rank.rank",
     "is [[adapter_rank]] here, with the keys pattern, rank and alpha"},
    {"alpha_pattern", "adapter_rank.alpha",
     "is [[adapter_rank]] here, with the keys pattern, rank and alpha"},
    {"loraplus_lr_ratio", "adapter.b_lr_ratio", ""},
    {"lora_modules_to_save", "adapter.also_train", ""},
    {"resize_vocab", "", adds_tokens},
    {"additional_special_tokens", "", adds_tokens},
    {"qlora", "", in_four_bits},
    {"load_in_4bit", "", in_four_bits},
    {"unfrozen_parameters", "freeze.pattern", trained_only},
    {"load_in_8bit", "",
     "has no counterpart: adapter.base = \"nf4\" stores base weights in 4 bits"},
};

}  // namespace

std::span<const FamiliarName> familiar_names_of_models() {
  return model_names;
}

}  // namespace trireme
