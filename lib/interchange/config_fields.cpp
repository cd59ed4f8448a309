#include "lib/interchange/config_fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"

namespace trireme {

namespace {

// Keys in configurations of transformers 4 and 5 that do not describe the model: the file's author,
// training, start, execution, texts, sampling, and heads for other tasks. The text classes of the
// imported families do not read them, or they only change how numbers are rounded.
constexpr std::string_view without_effect[] = {
    // the file
    "architectures", "transformers_version", "torch_dtype", "dtype", "name_or_path",
    "transformers.js_config", "is_llama_config",
    // training
    "initializer_range", "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
    "attn_pdrop", "classifier_dropout", "gradient_checkpointing", "tf_legacy_loss",
    "output_router_logits", "router_aux_loss_coef", "router_jitter_noise",
    // execution
    "use_cache", "cache_implementation", "output_attentions", "output_hidden_states", "output_past",
    "return_dict", "use_return_dict", "torchscript", "use_bfloat16", "chunk_size_feed_forward",
    "pretraining_tp", "reorder_and_upcast_attn", "attn_implementation", "tie_last_hidden_states",
    "is_decoder", "tie_encoder_decoder", "cross_attention_hidden_size",
    // texts
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id",
    "mask_token_id", "decoder_start_token_id", "tokenizer_class", "prefix",
    // other tasks
    "id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params",
    "n_special", "predict_special_tokens",
    // sampling
    "max_length", "max_sequence_length", "max_new_tokens", "min_length", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k",
    "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens"};

// Returns true if a key has no effect. Keys that begin with "_" are a program's own notes. GPT-2's
// summary is a head for another task.
bool is_without_effect(std::string_view key) {
  return std::ranges::find(without_effect, key) != std::end(without_effect) ||
         key.starts_with("_") || key.starts_with("summary_") || key.starts_with("unsloth_");
}

}  // namespace

ConfigFields::ConfigFields(const Json& json, std::string within)
    : json_(json), within_(std::move(within)) {
  require(json.is_object(), "'{}' must be a JSON object, but is {}", within_, shown(json));
  if (!within_.empty()) within_ += '.';
}

std::string ConfigFields::name_of(std::string_view key) const {
  return within_ + escaped(key);
}

const Json* ConfigFields::find(const char* key) const {
  used_.insert(key);
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

std::int64_t ConfigFields::integer(const char* key) const {
  const auto* v = find(key);
  require(v, "'{}' is missing", name_of(key));
  return trireme::integer(*v, name_of(key), 1);
}
std::int64_t ConfigFields::integer(const char* key, std::int64_t otherwise) const {
  return find(key) ? integer(key) : otherwise;
}
double ConfigFields::real(const char* key) const {
  const auto* v = find(key);
  require(v, "'{}' is missing", name_of(key));
  return trireme::real(*v, name_of(key));
}
double ConfigFields::real(const char* key, double otherwise) const {
  return find(key) ? real(key) : otherwise;
}
double ConfigFields::positive(const char* key, double otherwise) const {
  const double x = real(key, otherwise);
  refuse_if(find(key) && x <= 0, key, "it must be a number above 0");
  return x;
}
bool ConfigFields::flag(const char* key, bool otherwise) const {
  const auto* v = find(key);
  require(!v || v->is_boolean(), "'{}' must be true or false, but is {}", name_of(key),
          v ? shown(*v) : "");
  return v ? v->get<bool>() : otherwise;
}
std::string ConfigFields::text(const char* key, const char* otherwise) const {
  const auto* v = find(key);
  require(!v || v->is_string(), "'{}' must be a string, but is {}", name_of(key),
          v ? shown(*v) : "");
  return v ? v->get<std::string>() : otherwise;
}

void ConfigFields::refuse_if(bool wrong, const char* key, std::string_view why) const {
  if (!wrong) return;
  const auto* v = find(key);
  fail("'{}' = {}: {}", name_of(key), v ? shown(*v) : "null", why);
}

void ConfigFields::refuse_rest(std::string_view model_type) const {
  std::vector<std::string> rest;
  for (const auto& [key, value] : json_.items())
    if (!value.is_null() && !used_.contains(key) && !is_without_effect(key))
      rest.push_back(fmt::format("'{}' = {}", name_of(key), shown(value)));
  require(rest.empty(),
          "{}: import does not support this with the type \"{}\", and ignoring it might change the "
          "model's results. Remove every field that the model was trained without",
          fmt::join(rest, ", "), model_type);
}

}  // namespace trireme
