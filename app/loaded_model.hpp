#pragma once
// A trained model, read from a checkpoint for evaluation or generation, on any number of ranks.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/machine.hpp"
#include "lib/data/tokenizer.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// How losses are summed: with the run's exactness (`of_run`), or separately for each sample,
// independently of the run's exactness (`of_samples`).
enum class LossesAre : std::uint8_t { of_run, of_samples };

// Function that may change a checkpoint's deck before the deck is used. Throws Error if it rejects
// the deck.
using DeckChange = std::function<void(Deck&)>;

// Arguments that all commands for a trained model have.
struct ModelArguments {
  // `checkpoint` is a checkpoint or a run directory, whose newest intact checkpoint is used.
  std::string checkpoint, backend;
  // Path that replaces model.init_from of the checkpoint's deck.
  std::string base;
  // Overrides of the deck, "section.key=value".
  std::vector<std::string> overrides;
  std::int64_t threads = 0;

  // Returns the arguments as text, for a comparison between ranks.
  std::string text() const;
};
void add_model_arguments(CLI::App& command, ModelArguments&);

// A trained model with its trainer.
class LoadedModel {
 public:
  // Loads a checkpoint. The deck is that of the checkpoint, except for the grid: all ranks are on
  // the data axis unless overrides change [parallel]. If the newest checkpoint of a run directory
  // is damaged, or is removed during reading, the newest intact checkpoint is loaded. Throws
  // SharedError if loading fails. Collective.
  static std::unique_ptr<LoadedModel> open(const Communicator& world, const ModelArguments&,
                                           LossesAre = LossesAre::of_run, const DeckChange& = {});

  LoadedModel(const Communicator& world, const std::filesystem::path& checkpoint,
              const ModelArguments&, LossesAre, const DeckChange&);

  const Deck& deck() const { return deck_; }
  const CheckpointMeta& meta() const { return reader_->meta(); }
  Trainer& trainer() { return *machine_.trainer; }
  // Returns the checkpoint's tokenizer. If the checkpoint has no tokenizer, returns one that writes
  // ids as text. `checkpoint` is the name of the checkpoint in messages.
  std::unique_ptr<Tokenizer> tokenizer(const std::string& checkpoint) const;
  // Returns the ids that end a text: those of the tokenizer and those of an imported
  // generation_config.json.
  std::vector<std::int32_t> ends(const Tokenizer&, const std::string& checkpoint) const;
  // Returns true on the rank that prints output.
  bool speaks() const { return machine_.axes.world.rank() == 0; }

 private:
  // `reader_` reads the checkpoint. `base_` reads the base model if the checkpoint contains
  // adapters.
  std::unique_ptr<CheckpointReader> reader_, base_;
  Deck deck_;
  Machine machine_;
};

}  // namespace trireme
