"""Mutants of models and tokenizers in the forms of others: name, file, right, wrong, suite."""
from suites import program

FILES = program("interchange_test", "-Interchange.*")
SHAPES = program("interchange_test", "Hf*")
ROUND = program("interchange_test", "RoundTrip.*:HfNames.*")
TEXTS = program("tokenizer_test", "*")

MUTANTS = [
    # weights
    ("keys are values", "lib/interchange/hf_names.cpp", "      return {q, kv};\n    case Share::values:\n      return {q + kv, kv};",
     "      return {q + kv, kv};\n    case Share::values:\n      return {q, kv};", ROUND),
    ("a gate is what it opens", "lib/interchange/hf_names.cpp", "      return {0, c.ffn_width};\n    case Share::up:\n      return {c.ffn_width, c.ffn_width};",
     "      return {c.ffn_width, c.ffn_width};\n    case Share::up:\n      return {0, c.ffn_width};", ROUND),
    ("a square weight is not transposed", "lib/interchange/hf_names.cpp", '"transformer.h.#.attn.c_proj.weight", Share::transposed}', '"transformer.h.#.attn.c_proj.weight"}',
     ROUND),
    ("an MLP's products are swapped", "lib/interchange/hf_names.cpp",
     '"transformer.h.#.mlp.c_fc.weight", Share::transposed},\n    {"blocks.#.ffn_in.bias", "transformer.h.#.mlp.c_fc.bias"},\n'
     '    {"blocks.#.ffn_out.weight", "transformer.h.#.mlp.c_proj.weight", Share::transposed},\n    {"blocks.#.ffn_out.bias", "transformer.h.#.mlp.c_proj.bias"},',
     '"transformer.h.#.mlp.c_proj.weight", Share::transposed},\n    {"blocks.#.ffn_in.bias", "transformer.h.#.mlp.c_proj.bias"},\n'
     '    {"blocks.#.ffn_out.weight", "transformer.h.#.mlp.c_fc.weight", Share::transposed},\n    {"blocks.#.ffn_out.bias", "transformer.h.#.mlp.c_fc.bias"},', ROUND),
    ("a query's norm is the key's", "lib/interchange/hf_names.cpp", 'self_attn.q_norm.weight"},\n    {"blocks.#.k_norm.weight", "model.layers.#.self_attn.k_norm.weight"}',
     'self_attn.k_norm.weight"},\n    {"blocks.#.k_norm.weight", "model.layers.#.self_attn.q_norm.weight"}', ROUND),
    ("norms are those of the other branch", "lib/interchange/hf_names.cpp", '{"blocks.#.ffn_norm.weight", "transformer.h.#.ln_2.weight"}',
     '{"blocks.#.ffn_norm.weight", "transformer.h.#.ln_1.weight"}', ROUND),
    ("a part of a transposed weight is its begin", "lib/interchange/hf_folder.cpp", "whole_.begin() + begin * size", "whole_.begin() + 0 * begin * size", ROUND),
    ("a part of a weight is its tensor's begin", "lib/interchange/hf_folder.cpp", "read_rows(source, begin - source.tensor.begin, dtype, part);",
     "read_rows(source, 0, dtype, part);", ROUND),
    ("a tied head may be another", "lib/interchange/hf_folder.cpp", "  if (head_again) require_head_is_table();\n", "", FILES),
    ("weights of f64 are imported as f32", "lib/interchange/hf_folder.cpp", "return any ? DType::f64 : DType::f32;", "return any && false ? DType::f64 : DType::f32;", ROUND),
    ("a tensor that a model has no place for is left out", "lib/interchange/hf_folder.cpp", "if (head || is_known_buffer(name))", "if (head || !is_known_buffer(name + \"?\"))", FILES),
    ("half a number is twice as large", "lib/interchange/elements.cpp", "(127 - 15) << 23", "(127 - 14) << 23", FILES),
    ("a double is rounded twice", "lib/interchange/elements.cpp", "    bits |= 1;\n", "", FILES),
    ("a shard is as large as it comes", "lib/interchange/export_safetensors.cpp", "size + more > most)", "size > most)", ROUND),
    ("an index counts one shard", "lib/interchange/export_safetensors.cpp", "bytes += entries[i].bytes;\n    }\n    file.finish();", "bytes = entries[i].bytes;\n    }\n    file.finish();", ROUND),
    ("elements begin anywhere", "lib/interchange/safetensors.cpp", "(text.size() + 7) / 8 * 8", "(text.size() + 1) / 1 * 1", FILES),
    ("tensors may overlap", "lib/interchange/safetensors.cpp", "require(t.begin >= begin,", "require(t.begin >= 0,", FILES),
    ("a file of weights swaps two factors", "lib/interchange/export_hdf5.cpp", '{"rope_low_freq_factor", c.rope_low_freq_factor},\n          {"rope_high_freq_factor", c.rope_high_freq_factor},',
     '{"rope_low_freq_factor", c.rope_high_freq_factor},\n          {"rope_high_freq_factor", c.rope_low_freq_factor},', FILES),
    ("a file of weights has transposed weights", "lib/interchange/export_hdf5.cpp", "{p.name, p.shape, summary", "{p.name, p.shape.dims() == 2 ? Shape{p.shape[1], p.shape[0]} : p.shape, summary", FILES),
    # settings
    ("an epsilon that is left out is GPT-2's", "lib/interchange/hf_config_read.cpp", 'f.real("rms_norm_eps", 1e-6)', 'f.real("rms_norm_eps", 1e-5)', SHAPES),
    ("a Mistral's heads are all kept", "lib/interchange/hf_config_read.cpp", 'Family{"mistral", 8, 0, 131072', 'Family{"mistral", 0, 0, 131072', SHAPES),
    ("a Mistral sees all tokens", "lib/interchange/hf_config_read.cpp", '131072, 4096, false, false}', '131072, 0, false, false}', SHAPES),
    ("a base beside its scaling is not read", "lib/interchange/hf_config_read.cpp", 'rope.real("rope_theta", f.real("rope_theta", 10000))', 'rope.real("rope_theta", 10000)', SHAPES),
    ("a Llama's head is its table", "lib/interchange/hf_config_read.cpp", 'f.flag("tie_word_embeddings", false)', 'f.flag("tie_word_embeddings", true)', SHAPES),
    ("an MLP is twice as wide", "lib/interchange/hf_config_read.cpp", 'f.integer("n_inner", 4 * c.width)', 'f.integer("n_inner", 2 * c.width)', SHAPES),
    ("windows count the first layers", "lib/interchange/hf_config_read.cpp", 'f.integer("max_window_layers", 28) < layers', 'f.integer("max_window_layers", 28) > layers', SHAPES),
    ("a setting that nobody knows is passed over", "lib/interchange/config_fields.cpp", "!used_.contains(key) && !is_without_effect(key)", "false", SHAPES),
    ("a longer context is not asked for", "lib/interchange/hf_config_read.cpp", "  if (c.context < positions) c.max_context = positions;\n", "", SHAPES),
    ("an export's positions are a sample's", "lib/interchange/hf_config_write.cpp", '{"max_position_embeddings", positions_of(c)}', '{"max_position_embeddings", c.context}', SHAPES),
    ("a Qwen2 with an output bias is a Qwen2", "lib/interchange/hf_config_write.cpp", 'return c.qkv_bias && !c.bias ? "Qwen2ForCausalLM"', 'return c.qkv_bias || c.bias ? "Qwen2ForCausalLM"', SHAPES),
    ("a begin is an end", "lib/interchange/hf_config_write.cpp", 'json["bos_token_id"] = id_or_null(ids.begin);', 'json["bos_token_id"] = end_ids(ids.ends);', FILES),
    ("an export of bytes has no end", "lib/interchange/tokenizer_files.cpp", "to_lines(config)}}, {{}, {0}}};", "to_lines(config)}}, {{}, {}}};", FILES),
    ("a tokenizer's end outdoes the model's", "lib/interchange/tokenizer_files.cpp", "if (files.ids.ends.empty() && end)", "if (end)", FILES),
    ("a model forgets what ends its texts", "lib/interchange/tokenizer_files.cpp", "    if (!ids.ends.empty()) files.emplace(generation,", "    if (ids.begin) files.emplace(generation,", FILES),
    # texts
    ("of equal ranks the last is merged", "lib/tokenizer/merges.cpp", "if (merges[i].rank < merges[best].rank) best = i;", "if (merges[i].rank <= merges[best].rank) best = i;", TEXTS),
    ("a pair that was merged is merged again", "lib/tokenizer/merges.cpp", "    if (find(token.id, right.id).rank != rank) continue;\n", "", TEXTS),
    ("a long word's merged token is not joined to the one before", "lib/tokenizer/merges.cpp", "    consider(token.before);\n", "", TEXTS),
    ("the shortest added token is taken", "lib/tokenizer/added_tokens.cpp", "match = {nodes_[node].token, i + 1};", "return {nodes_[node].token, i + 1};", TEXTS),
    ("an added token leaves the space behind it", "lib/tokenizer/added_tokens.cpp", "    if (token->rstrip) end += spaces_at_start(text.substr(end));\n", "", TEXTS),
    ("an added word is found within words", "lib/tokenizer/added_tokens.cpp", "(ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))", "ends_with_word(text.substr(0, begin)))", TEXTS),
    ("a special token is found in normalised texts", "lib/tokenizer/added_tokens.cpp", '"normalized", !token.special)', '"normalized", true)', TEXTS),
    ("a soft hyphen prints", "lib/tokenizer/byte_alphabet.cpp", "b >= 0xae;", "b >= 0xad;", TEXTS),
    ("bytes that are no text are one replacement", "lib/tokenizer/decoder.cpp", 'out.insert(out.end(), bytes.size(), "\\xEF\\xBF\\xBD");', 'out.push_back("\\xEF\\xBF\\xBD");', TEXTS),
    ("the first space stays", "lib/tokenizer/decoder.cpp", "    for (std::size_t i = 0; i < s.start && rest.starts_with(s.content); ++i)\n      rest.remove_prefix(s.content.size());\n", "", TEXTS),
    ("each part of a text begins a text", "lib/tokenizer/normalizer.cpp", "if (begins && !out.empty())", "if (!out.empty())", TEXTS),
    ("each word has a space first", "lib/tokenizer/pre_tokenizer.cpp", "name == \"first\" ? Metaspace::Prepend::first", "name == \"first\" ? Metaspace::Prepend::always", TEXTS),
    ("what is behind a text comes first, too", "lib/tokenizer/text_pipeline.cpp", 'if (piece.contains("Sequence")) break;', 'if (piece.contains("Sequence")) continue;', TEXTS),
    ("a text is cut behind what takes its space", "lib/tokenizer/text_cuts.cpp", "if (at_space && std::ranges::binary_search(no_space_after_, *before)) return false;", "", TEXTS),
    ("a text is cut within a path", "lib/tokenizer/text_cuts.cpp", "(is_space(*behind) || *behind == '/' ||", "(is_space(*behind) ||", TEXTS),
    ("unknown characters are not one", "lib/tokenizer/bpe.cpp", "if (waits && !fuse_unknown_) ids.push_back(*unknown_);", "if (waits) ids.push_back(*unknown_);", TEXTS),
    ("a word of the vocabulary is merged", "lib/tokenizer/bpe.cpp", "whole_.find(std::string(word));", "whole_.find(std::string());", TEXTS),
    ("digits of other scripts are letters", "lib/tokenizer/utf8.cpp", "category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;", "category > UTF8PROC_CATEGORY_NO;", TEXTS),
    ("a token's spaces have three bytes", "lib/tokenizer/text_pipeline.cpp", "return bytes_with(space, *token);", "return token->size();", TEXTS),
    ("a wide space is a letter", "lib/tokenizer/regex.cpp", '"\\\\x{3000}";', '"\\\\x{2fff}";', TEXTS),
]
