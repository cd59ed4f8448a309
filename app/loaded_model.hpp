#pragma once
// A trained model from a checkpoint, to be evaluated or to generate with, on any number of ranks.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/machine.hpp"
#include "lib/data/tokenizer.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// How losses are summed: as the run's own, or each sample's alone, whatever the run's exactness.
enum class LossesAre : std::uint8_t { of_run, of_samples };

// May change a checkpoint's deck before anything is made of it. Throws Error.
using DeckChange = std::function<void(Deck&)>;

// Arguments that commands on a trained model share.
struct ModelArguments {
  std::string checkpoint, backend;     // of a run: its newest
  std::string base;                    // in place of its deck's model.init_from
  std::vector<std::string> overrides;  // section.key=value
  std::int64_t threads = 0;

  std::string text() const;  // to compare between ranks
};
void add_model_arguments(CLI::App& command, ModelArguments&);

class LoadedModel {
 public:
  // Collective. The deck is the checkpoint's, but for one rank, or, with several, with all of them
  // on data unless overrides of [parallel] say otherwise. SharedError. Where a run prunes the
  // checkpoint that is about to be read, the next newest is taken.
  static std::unique_ptr<LoadedModel> open(const Communicator& world, const ModelArguments&,
                                           LossesAre = LossesAre::of_run, const DeckChange& = {});

  LoadedModel(const Communicator& world, const std::filesystem::path& checkpoint,
              const ModelArguments&, LossesAre, const DeckChange&);

  const Deck& deck() const { return deck_; }
  const CheckpointMeta& meta() const { return reader_->meta(); }
  Trainer& trainer() { return *machine_.trainer; }
  // The checkpoint's; ids as text where it holds none. `checkpoint` names it in messages.
  std::unique_ptr<Tokenizer> tokenizer(const std::string& checkpoint) const;
  // Ids behind which a text has come to an end: the tokenizer's, and those that an import found.
  std::vector<std::int32_t> ends(const Tokenizer&, const std::string& checkpoint) const;
  bool speaks() const { return machine_.axes.world.rank() == 0; }

 private:
  std::unique_ptr<CheckpointReader> reader_, base_;  // base_: where that is of adapters
  Deck deck_;
  Machine machine_;
};

}  // namespace trireme
