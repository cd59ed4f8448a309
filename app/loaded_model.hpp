#pragma once
// Loads a trained model from a checkpoint, for evaluation or generation on any number of ranks.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/machine.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Function that returns the deck with which a checkpoint's model is loaded, given the checkpoint's
// deck. Throws Error if it rejects the deck.
using DeckChange = std::function<Deck(Deck)>;

// The arguments that all commands for trained models have in common.
struct ModelArguments {
  // `checkpoint` is the path of a checkpoint or of a run directory. For a run directory, the newest
  // intact checkpoint is used.
  std::string checkpoint, backend;
  bool best = false;  // use the run's checkpoint with the best evaluation
  bool ema = false;   // use the averaged weights (train.ema)
  // Path that replaces model.init_from of the checkpoint's deck.
  std::string base;
  // Overrides of the deck, "section.key=value".
  std::vector<std::string> overrides;
  std::int64_t threads = 0;

  // Returns the arguments as text. Ranks compare this text to check that they have the same
  // arguments.
  std::string text() const;
};
// Adds the arguments to the command. `more_keys` names the keys that the command accepts as
// overrides besides those of the machine's sections.
void add_model_arguments(CLI::App& command, ModelArguments&, const std::string& more_keys = "");

// A trained model with its trainer.
class LoadedModel {
 public:
  // Loads a checkpoint. The deck is that of the checkpoint, except for the grid. All ranks are on
  // the data axis, unless overrides change [parallel]. If the newest checkpoint of a run directory
  // is damaged, or another process removes it during loading, loads the newest intact checkpoint.
  // Throws SharedError if loading fails. Collective.
  static std::unique_ptr<LoadedModel> open(const Communicator& world, const ModelArguments&,
                                           ModelUse, const DeckChange& = {});

  // `reader` reads the checkpoint whose weights the machine's trainer has.
  LoadedModel(std::unique_ptr<CheckpointReader> reader, const Deck& deck, Machine machine)
      : reader_(std::move(reader)), deck_(deck), machine_(std::move(machine)) {}

  const Deck& deck() const { return deck_; }
  const CheckpointMeta& meta() const { return reader_->meta(); }
  Trainer& trainer() { return *machine_.trainer; }
  // Returns the tokenizer of the checkpoint. If the checkpoint has no tokenizer, returns a
  // tokenizer that writes ids as decimal numbers. `checkpoint` is the name of the checkpoint in
  // messages.
  std::unique_ptr<Tokenizer> tokenizer(const std::string& checkpoint) const;
  // Returns the ids of all end-of-text tokens: those of the tokenizer, and those of an imported
  // generation_config.json.
  std::vector<std::int32_t> ends(const Tokenizer&, const std::string& checkpoint) const;
  // Returns ", averaged weights" or ", weights not averaged", for the end of a message. Returns an
  // empty string if the checkpoint has no averages.
  std::string weights_text() const {
    return reader_->uses_averages()  ? ", averaged weights"
           : reader_->has_averages() ? ", weights not averaged"
                                     : "";
  }
  // Returns true on rank 0, which prints all output.
  bool speaks() const { return machine_.axes.world.rank() == 0; }

 private:
  std::unique_ptr<CheckpointReader> reader_;
  const Deck deck_;
  Machine machine_;
};

}  // namespace trireme
