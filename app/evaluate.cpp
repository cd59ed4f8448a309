// The `trireme evaluate CHECKPOINT` command.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/file_documents.hpp"
#include "app/launch.hpp"
#include "app/loaded_model.hpp"
#include "app/multiple_choice.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "app/tokenizers.hpp"
#include "app/whole_number.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/json.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/mean_evaluation.hpp"
#include "lib/run/evaluation.hpp"
#include "lib/run/preference_text.hpp"

namespace trireme {

namespace {

struct EvaluateArguments {
  ModelArguments model;
  std::vector<std::string> data;
  std::int64_t samples = 0;
  std::string questions, output, documents;
  ExistingFile existing = ExistingFile::stays;

  std::string text() const {
    return fmt::format(
        "evaluate {} --data {} --samples {} --multiple-choice '{}' --output '{}' "
        "--documents '{}' {}",
        model.text(), fmt::join(data, " "), samples, questions, output, documents,
        existing == ExistingFile::replaced);
  }
};

std::vector<std::string> files_of(const EvaluateArguments& a, const DataConfig& data) {
  if (!a.data.empty()) return a.data;
  auto files = data.validation_fraction > 0 ? data.path : data.validation_files;
  for (const auto& set : data.sets) files.insert(files.end(), set.path.begin(), set.path.end());
  return files;
}

// Returns the value of the last override of a key, or an empty text if there is none.
std::string_view override_of(std::string_view key, const std::vector<std::string>& overrides) {
  std::string_view value;
  for (const std::string_view o : overrides)
    if (o.starts_with(key)) value = o.substr(key.size());
  return value;
}

// Returns the deck, changed if the files contain preference pairs or labeled answers. They are
// measured with the objective of the run or of an override. If that objective is for other
// documents, pairs are measured as with train.objective = "dpo", and labeled answers as with "kto".
Deck for_data(const EvaluateArguments& a, Deck deck) {
  const auto files = files_of(a, deck.data);
  for (const auto& f : files)
    require(f.find('=') == std::string::npos || std::filesystem::exists(f),
            "--data: there is no token file {}. If this is an override, write it before --data", f);
  const auto kind_of = [](auto& f) { return TokenFile(f).header().kind; };
  const auto pairs =
      std::ranges::find_if(files, [&](auto& f) { return kind_of(f) != Documents::single; });
  const auto given = override_of("train.objective=", a.model.overrides);
  if (pairs == files.end()) {
    require(given.empty(),
            "train.objective={} has no effect, because {} contains no preference pairs or labeled "
            "answers",
            given, fmt::join(files, " and "));
    return deck;
  }
  const auto kind = kind_of(*pairs);
  const auto many = names_of(kind).many;
  const auto before = deck.train.objective;
  deck.train.objective = value_named<Objective>(given).value_or(before);
  require(given.empty() || traits_of(deck.train.objective).samples == kind,
          "{} contains {}, which train.objective={} does not measure. Set train.objective to {}",
          *pairs, many, given, objectives_for(kind));
  if (traits_of(deck.train.objective).samples != kind)
    deck.train.objective = kind == Documents::pairs ? Objective::dpo : Objective::kto;
  if (deck.train.objective != before) {
    // Keys of the run's objective have no effect on another one.
    const TrainConfig plain;
    for (const auto& key : traits_of(before).keys)
      std::visit([&](auto member) { deck.train.*member = plain.*member; }, key.member);
    deck.distill = {};
  }
  if (traits_of(deck.train.objective).fixed == FixedModel::reference) {
    const auto scores = override_of("train.dpo_scores=", a.model.overrides);
    if (!scores.empty()) deck.train.dpo_scores = std::filesystem::absolute(scores).string();
    const auto alone =
        objectives_text([&](auto& o) { return o.samples == kind && o.fixed == FixedModel::none; });
    require(deck.adapter.rank > 0 || !deck.train.dpo_scores.empty(),
            "{} contains {}, and {} has no adapters whose base model could be the reference of "
            "train.objective={}. Set train.dpo_scores to a file that `trireme score` wrote{}",
            *pairs, many, a.model.checkpoint, name_of(deck.train.objective),
            alone.empty() ? "" : ", or set train.objective to " + alone);
  }
  deck.data.packing = Packing::documents;
  deck.data.attention = AttentionSpan::document;
  if (deck.data.long_documents == LongDocuments::split)
    deck.data.long_documents = LongDocuments::drop;
  if (deck.run.exactness == Exactness::invariant) deck.run.exactness = Exactness::repeatable;
  deck.run.replay_every = 0;
  return deck;
}

// Describes how files are read. The loss on a file depends on it.
std::string read_as(const Deck& deck) {
  const auto T = deck.data.context;
  const bool within = deck.data.attention == AttentionSpan::document;
  if (deck.data.packing == Packing::documents)
    return fmt::format("of whole documents in samples of {}", T);
  return fmt::format("in windows of {}{}", T, within ? ", attention within documents" : "");
}

// Rank 0 writes a line of JSON for each document of a set. Returns the loss over all documents.
LossSum write_documents(LoadedModel& model, const ValidationData& v, OutputFile* file) {
  const auto losses = losses_of_documents(model.trainer(), v.data, model.deck().train.microbatch);
  LossSum total;
  for (std::size_t range = 0; range < losses.size(); ++range) {
    const auto& tokens = v.data.ranges()[range].file;
    const FileDocuments numbers(tokens);
    const auto documents = v.data.documents(range);
    for (std::size_t d = 0; d < documents.size(); ++d) {
      const auto [begin, count] = documents[d];
      const auto targets = std::ranges::count(tokens.targets(begin + 1, count), true);
      total += {losses[range][d], targets};
      const double loss = losses[range][d] / static_cast<double>(targets);
      if (!file) continue;
      const Json line = {{"document", numbers.in(begin, begin + 1).first},
                         {"file", tokens.path().string()},
                         {"loss", loss},
                         {"perplexity", std::exp(loss)},
                         {"set", v.name},
                         {"targets", targets},
                         {"tokens", {begin, begin + count - 1}}};
      file->write(line.dump() + "\n");
    }
  }
  return total;
}

// Evaluates the model on a set, and prints the result. With --documents, also writes the losses of
// its documents to `file`, which is null on other ranks than 0. Returns the loss and the
// preferences, or nothing if the evaluated samples have no targets.
std::optional<EvaluationRow> evaluate_set(LoadedModel& model, const ValidationData& v,
                                          const EvaluateArguments& a, OutputFile* file) {
  const auto& deck = model.deck();
  const auto result = a.documents.empty()
                          ? *evaluate(model.trainer(), v.data, a.samples, deck.train.microbatch)
                          : Evaluation{.loss = write_documents(model, v, file)};
  const auto& loss = result.loss;
  const auto label = v.label();
  if (loss.valid == 0) return {};
  EvaluationRow row{model.meta().step, model.meta().tokens, loss.mean(), std::exp(loss.mean())};
  if (result.preferences) {
    row.perplexity = 0;
    row.preference = columns_of(*result.preferences);
  }
  const auto item = result.preferences ? names_of(v.data.kind()).one : "target";
  if (const auto wrong = not_finite(result, label); !wrong.empty())
    throw SharedError(
        fmt::format("{}, over {}: the model's computation overflows, because its weights or "
                    "adapters are too large",
                    wrong, counted(loss.valid, item)));
  if (!model.speaks()) return row;
  const auto begin = fmt::format("step {}: {}loss {:.6f}", model.meta().step,
                                 v.name.empty() ? "" : label + " ", loss.mean());
  if (result.preferences)
    fmt::print("{}, {}, over {}, with {}{}\n", begin, text_of(columns_of(*result.preferences)),
               counted(loss.valid, item), loss_settings_text(deck.train), model.weights_text());
  else
    fmt::print("{}, perplexity {:.4f}, over {} {}{}\n", begin, std::exp(loss.mean()),
               counted(loss.valid, item), read_as(deck), model.weights_text());
  return row;
}

// Prints the weighted mean of the sets.
void print_mean(const LoadedModel& model, std::span<const WeightedEvaluation> all) {
  if (all.empty() || !model.speaks()) return;
  const auto row = mean_of(all);
  fmt::print(
      "step {}: {} loss {:.6f}, {}, weighted mean of {}{}\n", row.step,
      label_of_set(std::string(mean_set)), row.loss,
      row.preference ? text_of(*row.preference) : fmt::format("perplexity {:.4f}", row.perplexity),
      counted(all.size(), "set"), model.weights_text());
}

int evaluate_checkpoint(const Communicator& world, const EvaluateArguments& a) {
  if (!a.questions.empty())
    return evaluate_choices(world, a.model, a.questions, a.output, a.existing, a.samples);
  const auto loaded = LoadedModel::open(world, a.model, ModelUse::evaluation,
                                        [&](Deck deck) { return for_data(a, std::move(deck)); });
  auto& model = *loaded;
  const auto& data = model.deck().data;
  const auto vocab = model.deck().model.vocab;
  std::vector<ValidationData> sets;
  together(world, Pace::slow, [&] {
    require(data.has_validation() || !a.data.empty(),
            "the checkpoint's deck has no validation data: name token files with --data");
    if (a.data.empty())
      sets = validation_data(data, data.context, vocab);
    else
      sets.push_back({"", held_out_data(data, a.data, data.context, vocab)});
    for (auto& v : sets) {
      require_tokens_of(model.meta(), a.model.checkpoint, v.data.tokenizer());
      v.data = with_scores(model.deck(), std::move(v.data));
    }
  });
  if (model.speaks())
    for (const auto& v : sets) {
      log_packing(v.data, a.data.empty() ? v.label() : "");
      suggest_packing(v.data);
    }
  std::optional<OutputFile> file;
  if (!a.documents.empty()) {
    together(world, [&] {
      require(model.deck().data.packing == Packing::documents,
              "--documents needs whole documents in each sample: add data.packing=documents and "
              "data.attention=document");
      for (const auto& v : sets)
        require(v.data.kind() == Documents::single,
                "--documents does not support preference pairs and labeled answers");
      require(model.deck().run.exactness != Exactness::invariant,
              "--documents does not support run.exactness = \"invariant\": add "
              "run.exactness=repeatable");
    });
    at_root(world, [&] { file.emplace(a.documents, document_losses_file, a.existing); });
  }
  std::vector<std::string> without_targets;
  std::vector<WeightedEvaluation> weighted;
  for (const auto& v : sets) {
    const auto row = evaluate_set(model, v, a, file ? &*file : nullptr);
    if (!row)
      without_targets.push_back(v.label());
    else if (v.weight > 0)
      weighted.push_back({v.weight, *row});
  }
  if (!without_targets.empty())
    throw SharedError(
        fmt::format("no {} loss, because all tokens of the evaluated samples are masked: evaluate "
                    "more samples, or remove the masks",
                    fmt::join(without_targets, " and no ")));
  print_mean(model, weighted);
  at_root(world, [&] {
    if (file) file->finish();
  });
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "evaluate",
      "Compute the validation loss of a checkpoint, or its accuracy on multiple-choice questions");
  auto a = std::make_shared<EvaluateArguments>();
  add_model_arguments(*command, a->model,
                      "data.packing, data.attention, data.long_documents, data.separator_masks, "
                      "train.objective, " +
                          objective_keys_text());
  command
      ->add_option(
          "--data", a->data,
          "Token files to evaluate on (default: the validation data in the checkpoint's deck)")
      ->transform(with_environment());
  command
      ->add_option(
          "--samples", a->samples,
          "Maximum number of samples, which are spread evenly over each file (default: all). With "
          "--multiple-choice: maximum number of questions, from the start of the file")
      ->check(whole_number_from(0));
  auto* questions = command
                        ->add_option("--multiple-choice", a->questions,
                                     "File with questions in HellaSwag format: JSON lines with the "
                                     "fields ctx, endings and label")
                        ->excludes("--data")
                        ->transform(with_environment());
  auto* output = command
                     ->add_option("--output", a->output,
                                  "Write the scores of each question to this file, as JSON lines")
                     ->needs(questions)
                     ->transform(file_named)
                     ->transform(with_environment());
  auto* documents =
      command
          ->add_option(
              "--documents", a->documents,
              "Write the loss and perplexity of each document to this file, as JSON lines. "
              "Needs whole documents in each sample (data.packing=documents)")
          ->excludes(questions)
          ->excludes("--samples")
          ->transform(file_named)
          ->transform(with_environment());
  auto* const overwrite = add_overwrite(*command, a->existing);
  command->callback([&chosen, a, output, documents, overwrite] {
    if (*overwrite && !*output && !*documents)
      throw CLI::ValidationError("--overwrite", "needs --output or --documents");
    chosen = [a] {
      return on_all_ranks(a->text(),
                          [&](const Communicator& w) { return evaluate_checkpoint(w, *a); });
    };
  });
}

}  // namespace trireme
