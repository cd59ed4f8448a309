"""Mutants of the deck and of the model that it describes: name, file, right, wrong, suite."""
from suites import program, rows

DECK = program("deck_test", "*")
KEYS = program("keys_test", "*")
LOGITS = program("train_test", "Logits.*")
PLACES = program("predict_test", "MachineFile.*")

MUTANTS = [
    # consequences of changed keys
    ("a key has no consequence", "lib/deck/consequences.cpp", '{{"train.seed"}, seed_text},', "", DECK),
    ("grids are said to change invariant bits", "lib/deck/consequence_texts.cpp", "if (exact(c.run.before) && exact(c.run.after) && !bits) return {};", "", DECK),
    ("keys of other objectives have consequences", "lib/deck/consequences.cpp", "(!row.used || row.used(run.after, c.key))", "true", DECK),
    # rules between keys
    ("a router's kind needs no experts", "lib/deck/model_rules.cpp", "alone(m.router != plain.router, \"model.router\");", "", DECK),
    ("no expert may compute a token", "lib/deck/model_rules.cpp", "rule(m.experts_per_token >= 1 && m.", "rule(m.", DECK),
    ("dense blocks may lie behind the last", "lib/deck/model_rules.cpp", "[&](auto l) { return l >= layers; }", "[&](auto l) { return l > layers; }", DECK),
    ("softmax takes a bias", "lib/deck/model_rules.cpp", "t.balance != Balance::bias || m.router == RouterScores::sigmoid || m.experts == 0,", "true,", DECK),
    ("validation sets may share a name", "lib/deck/evaluation_rules.cpp", "rule(same == sets.begin() + static_cast<std::ptrdiff_t>(i) || name.empty(),", "rule(true,", DECK),
    ("a table may have fewer positions than a sample", "lib/deck/model_rules.cpp", "rule(most >= context,", "rule(true,", DECK),
    ("a rule's line is not the override's", "lib/deck/load.cpp", "if (there && there->place.line == 0) return there;", "", DECK),
    ("a stored deck obeys the rules of a new one", "lib/deck/load.cpp", "if (origin_ == Origin::checkpoint || !gives_number", "if (!gives_number", DECK),
    # values
    ("K is 1", "lib/keys/quantity.cpp", "static_cast<double>(power + 1)", "static_cast<double>(power)", DECK),
    ("GB is GiB", "lib/keys/quantity.cpp", "binary ? 1024.0 : 1000.0", "1024.0", DECK),
    ("a small number of bytes is taken without a unit", "lib/keys/quantity.cpp", "bytes >= least_plain || bytes == 0,", "true,", DECK),
    ("minutes of 60 seconds are 100", "lib/keys/quantity.cpp", "seconds = seconds * 60 + fields[i];", "seconds = seconds * 100 + fields[i];", DECK),
    ("60 seconds are no minute", "lib/keys/quantity.cpp", "if (i > 0 && fields[i] >= 60) refuse();", "if (i > 0 && fields[i] > 60) refuse();", DECK),
    ("a range ends before its end", "lib/keys/accept.cpp", "const bool high = r.below_max ? x < r.max : x <= r.max;",
     "const bool high = x < r.max;", DECK),
    ("a whole number below its range is taken", "lib/keys/accept.cpp", "if (x < static_cast<std::int64_t>(r.min))", "if (false)", DECK),
    ("dots stay in a path", "lib/keys/accept.cpp", "std::filesystem::absolute(value, failed).lexically_normal();",
     "std::filesystem::absolute(value, failed);", DECK),
    ("a backslash is not escaped", "lib/keys/value.cpp", "if (c == '\"' || c == '\\\\') {", "if (c == '\"') {", KEYS),
    ("a dollar that is escaped is a variable", "lib/keys/value.cpp", "if (at > 0 && text[at - 1] == '$') {", "if (false) {", KEYS),
    ("a number too small is zero", "lib/keys/toml_reader.cpp", "if (real->get() == 0) require_zero(source, raw.place);", "", DECK),
    # what is decided
    ("a preset comes behind the deck's keys", "lib/deck/load.cpp", "        start_from(preset_named(name));\n",
     "        fill(deck_);\n        const auto rest = deck_.model;\n        start_from(preset_named(name));\n"
     "        if (rest.layers == 0) return;\n        forget(\"model.layers\");\n", DECK),
    ("an override of the length is beside the deck's", "lib/deck/load.cpp", "if (other != path) forget_from_file(std::string(other));", "", DECK),
    ("a pipeline has as many microbatches as stages", "lib/deck/microbatch.cpp", "if (samples / m >= 2 * pipe)", "if (samples / m >= pipe)", DECK),
    ("microbatches of an interleaved pipeline fill no groups", "lib/deck/microbatch.cpp", "if (groups && common / m % pipe != 0) continue;", "", DECK),
    ("a microbatch fits train.batch alone", "lib/deck/microbatch.cpp", "for (const std::int64_t m : divisors(common)) {", "for (const std::int64_t m : divisors(samples)) {", DECK),
    ("a grid's microbatch is that of another", "lib/deck/microbatch.cpp", "default_microbatch(t.batch / p.data,", "default_microbatch(t.batch,", DECK),
    ("gradients of f64 travel as f32", "lib/deck/load.cpp", "deck_.precision.reduce = wide(deck_.precision.compute);", "deck_.precision.reduce = DType::f32;", DECK),
    # rules
    ("a file is trained on and held out", "lib/deck/data_rules.cpp", "rule(twice == d.validation_files.end(),", "rule(true,", DECK),
    ("shares of other files", "lib/deck/data_rules.cpp", "d.weights.empty() || d.weights.size() == d.path.size()", "true", DECK),
    ("a rule freezes until before it begins", "lib/deck/check.cpp", "f.to_step > f.from_step,", "f.to_step >= f.from_step,", DECK),
    ("a pattern may name nothing", "lib/deck/check.cpp", "for (const auto& pattern : deck_.optimizer.no_decay) check(pattern, \"optimizer.no_decay\");", "", DECK),
    ("a beta rounds to 1", "lib/deck/check.cpp", "rounded >= key.range->max;", "rounded > key.range->max;", DECK),
    ("an invariant run has chunks across ranks", "lib/deck/check.cpp", "rule(tokens % chunk == 0,", "rule(true,", DECK),
    ("a traced rank is beyond the last", "lib/deck/check.cpp", "rule(ranks == 0 || r < ranks,", "rule(ranks == 0 || r <= ranks,", DECK),
    # texts
    ("betas are swapped in a deck's text", "lib/deck/table_training.cpp", "return std::vector{o.beta1, o.beta2};",
     "return std::vector{o.beta2, o.beta1};", DECK),
    ("a fraction that is held out is not written", "lib/deck/table_data.cpp", "? KeyValue(d.validation_fraction)", "? KeyValue(0.0)", DECK),
    ("a rule that is new is no difference", "lib/deck/changes.cpp", "pair_until(olds, news);",
     "pair_until(olds, std::min(olds, news));", DECK),
    ("far messages are near ones", "lib/predict/machine_table.cpp", '"Messages between nodes.", &MachineModel::far', '"Messages between nodes.", &MachineModel::near',
     PLACES),
    ("TF32's peak is the memory's size", "lib/predict/machine_table.cpp", "&MachineModel::peak_tf32,", "&MachineModel::memory_bytes,", PLACES),
    ("a rate's table may lack rows", "lib/predict/machine_file.cpp", "p.m.size() * p.n.size() * p.k.size(), p.flops.size());",
     "p.m.size() * p.n.size(), p.flops.size() / p.k.size());", PLACES),
    ("sizes may stand in any order", "lib/keys/accept.cpp", "!(values[n - 1] > values[n - 2])", "values[n - 1] == values[n - 2]", PLACES),
    # what a run takes of it
    ("a run forgets its seed", "lib/deck/resolve.cpp", "  s.seed = static_cast<std::uint64_t>(d.train.seed);\n", "", DECK),
    ("a run forgets its dropout", "lib/deck/resolve.cpp", "  s.dropout = d.train.dropout;\n", "", DECK),
    ("samples are as long as a model's positions", "lib/deck/resolve.cpp", "  s.context = d.data.context;\n", "", DECK),
    ("a run forgets what it freezes", "lib/deck/resolve.cpp", "  s.freeze = d.freeze;\n", "", DECK),
    ("a run's gradients travel as they are computed", "lib/deck/resolve.cpp", "  s.reduce = d.precision.reduce;\n", "  s.reduce = compute;\n", DECK),
    # the model
    ("a preset has another base of its positions", "lib/model/config.cpp", "  c.rope_theta = 500000;\n", "", DECK),
    ("a preset has another epsilon", "lib/model/config.cpp", "  c.norm_eps = 1e-6;\n  c.rope_theta = 1e6;\n", "  c.rope_theta = 1e6;\n", DECK),
    ("a preset's positions are scaled by 8", "lib/model/config.cpp", "RopeScaling::llama3;\n  c.rope_factor = 32;", "RopeScaling::llama3;\n  c.rope_factor = 8;", DECK),
    ("a preset's samples are shorter", "lib/model/config.cpp", '28, 1024, 16, 8, 3072, 151936, 40960', '28, 1024, 16, 8, 3072, 151936, 32768', DECK),
    ("a SwiGLU's width is 4 times the model's", "lib/model/config.cpp", "(8 * c.width + 2) / 3;", "(12 * c.width + 2) / 3;", DECK),
    ("a table has no more positions than a sample", "lib/deck/load.cpp", "std::max(deck_.model.max_context, deck_.data.context);", "deck_.data.context;",
     program("interchange_test", "Import.*")),
    ("branches begin as large as the rest", "lib/model/spec.cpp", "init_std / std::sqrt(2.0 * static_cast<double>(c.layers));", "init_std;", DECK),
    ("biases decay", "lib/model/spec.cpp", 'return add({name + ".bias", role, {n}, u, false, 0, 0});', 'return add({name + ".bias", role, {n}, u, true, 0, 0});', DECK),
    ("norms decay", "lib/model/spec.cpp", "{n}, u, false, 0, 1});", "{n}, u, true, 0, 1});", DECK),
    ("a block's second norm is its first", "lib/model/parts.cpp", "p.ffn_norm, p.ffn_norm_bias)),", "p.attention_norm, p.attention_norm_bias)),",
     LOGITS),
    ("a norm behind is left out", "lib/model/parts.cpp", "end_branch(tape, run, attention_out_norm_,", "end_branch(tape, run, {},", LOGITS),
    ("a rope is not turned", "lib/model/parts.cpp", "  if (rotary_) h = tape.apply(run, *rotary_, std::move(h));\n", "", LOGITS),
    ("a block without positions rotates", "lib/model/model.cpp", "!has_rotary(c, l) ? Tensor() : own", "own", LOGITS),
    ("heads rotate whole in blocks with a window", "lib/model/model.cpp", "{.theta = c.window_rope_theta, .channels = c.rotary_dim}", "{.theta = c.window_rope_theta}", LOGITS),
    ("the pairs that do not rotate are scaled", "lib/ops/rotary.cpp", "frequency == 0 ? 1 : amplitude", "amplitude", LOGITS),
    ("pairs that rotate have the frequencies of a whole head", "lib/ops/rope_scaling.cpp", "std::pow(theta, -static_cast<double>(e) / static_cast<double>(pairs))",
     "std::pow(theta, -static_cast<double>(2 * e) / static_cast<double>(dim))", program("ops_test", "RopeScaling.*")),
    ("branches are added as they are", "lib/model/parts.cpp", "if (scale_) branch =", "if (false) branch =", LOGITS),
    ("logits have no factor", "lib/model/parts.cpp", "norm_, moved(std::move(x)))[1]);\n  if (scale_) x", "norm_, moved(std::move(x)))[1]);\n  if (false) x", LOGITS),
    ("embeddings have no factor", "lib/model/parts.cpp", "return c.embedding_scale;", "return 1;", LOGITS),
    ("scaled frequencies are those of windows", "lib/model/config.cpp", "c.window_rope_theta == c.rope_theta && c.rope_scaling == RopeScaling::none", "c.window_rope_theta == c.rope_theta",
     DECK),
]
