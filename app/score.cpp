// The `trireme score DECK [section.key=value ...]` command: computes a fixed model's scores of
// preference pairs and labeled answers.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/machine.hpp"
#include "app/output.hpp"
#include "app/tokenizers.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/data/same_files.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/scores_file.hpp"
#include "lib/run/evaluation.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

// Returns all documents of a file in sequence, including those that are held out.
Dataset all_of(const Deck& deck, const std::string& path) {
  auto all = held_out_data(deck.data, {path}, deck.data.context, deck.model.vocab);
  require_objective(deck, all);
  return all;
}

// Returns the files that the deck trains on and the files that it holds out.
std::vector<Dataset> files_of(const Deck& deck) {
  std::vector<Dataset> all;
  std::set<std::string> known;  // validation sets may share files
  const auto add = [&](const std::vector<std::string>& files) {
    for (const auto& path : files)
      if (known.insert(path).second) all.push_back(all_of(deck, path));
  };
  add(training_files(deck.data));
  add(deck.data.validation_files);
  for (const auto& set : deck.data.sets) add(set.path);
  return all;
}

FileLosses scored(Trainer& trainer, const Dataset& data, std::int64_t microbatch) {
  const auto losses = losses_of_documents(trainer, data, microbatch)[0];
  const auto documents = data.documents(0);
  const auto& file = data.ranges()[0].file;
  FileLosses f{file.path().string(), identity_text(file), {}, {}, {}};
  std::vector<std::size_t> order(documents.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t d) { return documents[d].begin; });
  for (const auto d : order) {
    f.begin_D.push_back(documents[d].begin);
    f.inputs_D.push_back(documents[d].count);
    f.loss_D.push_back(losses[d]);
    if (!std::isfinite(losses[d]))
      throw SharedError(
          fmt::format("the log-probability of the document that begins at token {} of {} is "
                      "infinite or not a number, so no scores were written",
                      documents[d].begin, f.file));
  }
  return f;
}

// Returns the deck of the model with which a run begins: without adapters, and with no part that
// trains.
Deck untrained(Deck deck) {
  deck.adapter = {};
  deck.freeze.clear();
  return deck;
}

int score(const Communicator& world, const DeckArguments& a) {
  const auto deck = untrained(read_deck(world, a));
  world.configure({.hang_timeout = deck.run.hang_timeout, .check_labels = deck.run.debug});
  const std::filesystem::path output = deck.train.dpo_scores;
  at_root(world, Pace::slow, [&] {
    require(traits_of(deck.train.objective).fixed == FixedModel::reference,
            "`trireme score` computes scores of a reference model: set train.objective = {}",
            objectives_text([](auto& o) { return o.fixed == FixedModel::reference; }));
    require(!output.empty(),
            "train.dpo_scores is not set: set it to the file that the scores are to be written to");
    require(!std::filesystem::is_directory(output),
            "train.dpo_scores: {} is a directory: name a file in it", output.string());
    require(!deck.init_from.empty(),
            "model.init_from is not set: set it to the checkpoint of the reference model");
    require(!is_there(output),
            "{} already exists, and `trireme score` does not replace files: set train.dpo_scores "
            "to another file",
            output.string());
  });
  auto fixed = open_fixed_models(world, deck, nullptr, ModelUse::evaluation);
  const auto& reader = *fixed.initial;
  std::vector<Dataset> files;
  together(world, Pace::slow, [&] { files = files_of(deck); });
  std::vector<TokenFile> tokens;
  for (const auto& f : files) tokens.push_back(f.ranges()[0].file);
  require_same_files(world, tokens);
  together(world, [&] {
    compare_with_initial(deck, reader);
    for (const auto& f : files) {
      require_tokens_of(reader.meta(), reader.directory().string(), f.tokenizer());
      log_packing(f);
    }
  });

  auto machine = choose_machine(world, deck, fixed, ModelUse::evaluation);
  machine.open(world);
  load_model(world, machine, fixed, nullptr, 0);
  auto& trainer = *machine.trainer;

  ReferenceLosses all;
  all.model = to_string(reader.identity_of_weights());
  // Weights that compute differently are another model, so the differences are part of the name.
  if (const auto differences = model_differences(model_of(reader), deck.model);
      !differences.empty())
    all.model += "/" + to_string(hash128(fmt::format("{}", fmt::join(differences, "\n"))));
  all.checkpoint = reader.directory().string();
  all.compute = name_of(machine.input.setup.compute);
  all.context = deck.data.context;
  for (const auto& f : files) all.files.push_back(scored(trainer, f, deck.train.microbatch));
  at_root(world, Pace::slow, [&] {
    write_scores(output, all);
    const auto one = names_of(files[0].kind()).one;
    for (const auto& f : all.files)
      say("{}: {} of {} scored by {}\n", output.string(), counted(std::ssize(f.loss_D) / 2, one),
          f.file, all.checkpoint);
  });
  return 0;
}

}  // namespace

void add_score(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "score",
      "Compute log-probabilities of the reference model (model.init_from) for DPO and KTO, and "
      "write them to train.dpo_scores");
  auto a = std::make_shared<DeckArguments>();
  add_deck_arguments(*command, *a);
  command->callback([&chosen, a] {
    chosen = [a] {
      return on_all_ranks(fmt::format("score {} {}", a->path, fmt::join(a->overrides, " ")),
                          [&](const Communicator& world) { return score(world, *a); });
    };
  });
}

}  // namespace trireme
