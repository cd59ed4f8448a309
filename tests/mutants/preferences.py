"""Mutants of pairs of documents and of what is learnt from them: name, file, right, wrong, suite."""
from suites import program, rows

PAIRS = program("train_test", "*Preferences.*")
SCORES = rows("scores of a model save")
TAUGHT = program("train_test", "*Distillation.*")
TAUGHT_ROWS = program("kernels_test", "*CrossEntropy*Teacher*")
SAMPLES = program("data_test", "PairSamples.*")
FILES = program("corpus_test", "Pairs.*")

MUTANTS = [
    ("a signal waits for all of a step of pairs", "lib/train/trainer_step.cpp", "if (passes.size() > 1 && should_abandon && wants_to_end(0).wait() > 0) {", "if (false) {", PAIRS),
    ("the passes take no time", "lib/train/trainer_step.cpp", "should_abandon(progress.done, progress.of)", "should_abandon(m, count)", PAIRS),
    ("the rejected document is learnt", "lib/train/trainer_preference.cpp", "weights.push_back(one.weight_rejected);", "weights.push_back(-one.weight_rejected);", PAIRS),
    ("a pair counts in its microbatch's mean", "lib/train/trainer_preference.cpp", "/ p.sums.pairs;", "/ static_cast<double>(documents / 2);", PAIRS),
    ("documents of all microbatches are the first one's", "lib/train/trainer_preference.cpp", "    first += static_cast<std::size_t>(documents);\n", "", PAIRS),
    ("the reference has adapters", "lib/train/trainer_preference.cpp", "  without.adapters = false;\n", "", PAIRS),
    ("scores are those of the model itself", "lib/train/trainer_preference.cpp", "reference = reference_of(microbatches);", "reference = before.policy;", PAIRS),
    ("another pass is counted where scores are given", "lib/train/objective.cpp", "if (pairs->reference != Reference::without_adapters)", "if (pairs->reference == Reference::none)", PAIRS),
    ("all documents have as many targets", "lib/train/trainer_preference.cpp", "targets.empty() ? 1 : targets[d]", "targets.empty() ? 1 : targets[0]", PAIRS),
    ("masked tokens count as targets", "lib/train/preference.cpp", "[](std::int32_t target) { return target != no_target; }", "[](std::int32_t) { return true; }", PAIRS),
    ("a rank knows the targets of its own positions", "lib/train/trainer_preference.cpp", "  seq.all_reduce(all);\n", "", rows("learns from pairs without")),
    ("gamma is added to the margin", "lib/train/preference.cpp", "r.margin() - o.gamma", "r.margin() + o.gamma", PAIRS),
    ("odds are probabilities", "lib/train/preference.cpp", "log_p - std::log(rest), 1 / rest", "log_p, 1 / rest", PAIRS),
    ("the slope of odds is that of probabilities", "lib/train/preference.cpp", "log_p - std::log(rest), 1 / rest", "log_p - std::log(rest), 1", PAIRS),
    ("pairs are measured as with dpo whatever the run", "app/evaluate.cpp", "  if (traits_of(deck.train.objective).samples != SamplesAre::pairs)\n", "  if (true)\n", rows("learns from pairs without")),
    ("scores are of documents in the file's order", "lib/data/dataset.cpp", "return std::span(*reference_[file]).subspan(begin, end - begin);",
     "return std::span(*reference_[file]).subspan(0, end - begin);", SAMPLES),
    ("the score of the document behind does", "lib/data/reference_losses.cpp", "begins[i] == d.begin && found->inputs_D[i] == d.count", "begins[i] >= d.begin", SAMPLES),
    ("a damaged score is read", "lib/io/scores_file.cpp", "require(trailer == trailer_of(file, bytes),",
     "require(std::ssize(trailer) == trailer_bytes,", program("io_test", "ScoresFile.*")),
    ("a restart goes on against another model", "app/prepare.cpp", "there.empty() || there == here,", "there.empty() || !here.empty(),", SCORES),
    ("of a file's scores those of one data rank are kept", "lib/run/evaluation.cpp", "  axes.world.all_reduce(all);\n  return all;", "  return all;", SCORES),
    ("held-out rewards are the last pairs'", "lib/run/evaluation.cpp", "*total.preferences += trainer.evaluate_pairs(mine);",
     "total.preferences = trainer.evaluate_pairs(mine);", rows("^pairs: pairs of answers")),
    ("weights are those of a loss without beta", "lib/train/preference.cpp", "return factor * (x > 0", "return (x > 0", PAIRS),
    ("a document begins with its sample", "lib/train/preference.cpp", "    before += documents.count;\n", "", PAIRS),
    ("rows of a chunk of logits are the sample's first", "lib/ops/head.cpp", "some.target_T = rows_of(whole.target_T, here);",
     "some.target_T = rows_of(whole.target_T, {0, here.end - here.begin});", PAIRS),
    ("a pair is two documents that fit somewhere", "lib/data/packing.cpp", "pack(whole_pairs(file, begin, end, s), 2, s);",
     "pack(whole_pairs(file, begin, end, s), 1, s);", SAMPLES),
    ("pairs begin with what is held out", "lib/data/packing.cpp", "  each_separator(file, 0, [&](std::int64_t separator) {\n    const PackedDocument d",
     "  from = begin;\n  each_separator(file, begin, [&](std::int64_t separator) {\n    const PackedDocument d", SAMPLES),
    ("what a pair shares is learnt", "lib/chat/chat_text.cpp", "message_number >= learnt_from", "message_number + learnt_from >= 0", FILES),
    ("a prompt is learnt", "lib/corpus/pair_documents.cpp", "d.targets.assign(d.ids.size(), 0);", "d.targets.assign(d.ids.size(), 1);", FILES),
    ("pairs that teach nothing are kept", "lib/corpus/tokenize.cpp", "if (same_answers(pair)) {", "if (false && same_answers(pair)) {", FILES),
    ("what is no target makes answers differ", "lib/corpus/pair_documents.cpp", "for (std::size_t i = 1; i < d.ids.size(); ++i)",
     "for (std::size_t i = 0; i < d.ids.size(); ++i)", FILES),
    ("a prompt stands before conversations that have it", "lib/chat/conversation.cpp", "if (prompt.is_text && asks(pair.chosen, p) && asks(pair.rejected, p)) return;", "", FILES),
    ("a file of pairs is one of documents", "lib/corpus/token_writer.cpp", "header_.pairs = kind == Documents::pairs;", "header_.pairs = false && kind == Documents::pairs;", FILES),
    ("a teacher is as cold as can be", "kernels/host/loss.cpp", "colder = 1 / t,", "colder = 1 + 0 * t,", TAUGHT_ROWS),
    ("a divergence fades with the temperature", "kernels/host/loss.cpp", "teacher.share * teacher.temperature * teacher.temperature;", "teacher.share;", TAUGHT_ROWS),
    ("a teacher says of all microbatches what it says of the first", "lib/train/stage.cpp", "taught->teacher[static_cast<std::size_t>(m)].view()", "taught->teacher[0].view()", TAUGHT),
    ("a teacher's logits are under the model's cap", "lib/train/trainer_step.cpp", "{.softcap = teacher->model.logit_softcap,", "{.softcap = setup_.model.logit_softcap,", TAUGHT),
    ("what p and q have in common is multiplied by t^2", "kernels/math/divergence.hpp", "return size < near ?", "return size < 0 * near ?", TAUGHT_ROWS),
    ("a teacher's positions are shared by its own heads", "lib/train/trainer.cpp", "  t.student_heads = heads_of_seq(s);\n", "", rows("learns from another")),
    ("ranks are alike whatever heads a teacher has", "lib/plan/rank_kinds.cpp", "if (!teacher) continue;", "if (teacher || s >= 0) continue;", program("plan_test", "RankKinds.*")),
    ("a restart learns from whatever is newest", "app/fixed_models.cpp", 'from ? from->extra.teacher : ""', '""',
     rows("learns from another")),
]
