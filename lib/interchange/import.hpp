#pragma once
// Imports Hugging Face models and adapters as checkpoints. Runs on any grid can use the checkpoints
// as model.init_from. Data is processed in chunks. Memory holds one chunk in addition to those of
// the writer, or a whole tensor if it must be transposed.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/deck/deck.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/tokenizer/more_tokens.hpp"

namespace trireme {

// Options of an import.
struct ImportOptions {
  // Type of the imported weights: f32 or f64. If absent, the type is f64 if any tensor is f64,
  // otherwise f32.
  std::optional<DType> master{};
  // Context length in tokens. If absent, the model's own context length is used.
  std::optional<std::int64_t> context{};
  // Tokens to add to the tokenizer. If the model has too few rows for their ids, the embedding and
  // the head get more. Each new row is the mean of the imported rows.
  std::vector<NewToken> add_tokens{};
};

// Statistics of an import.
struct ImportSummary {
  ModelDescription described;
  // Name of the tokenizer's kind.
  std::string tokenizer;
  DType master{};
  // Element types of the folder's tensors.
  std::set<ElementType> types;
  // Numbers of tensors and files that were read. `skipped` is the number of known buffers and other
  // tensors that are not used.
  std::size_t tensors = 0, files = 0, skipped = 0;
  // For each of ImportOptions::add_tokens, its id, and 1 if it was already an added token.
  std::vector<std::int32_t> added_ids{};
  std::vector<std::uint8_t> known_tokens{};
  std::int64_t added_rows = 0;  // rows that were added to the embedding and the head
};

// Imports a model into a new checkpoint. `checkpoint` must not exist. Throws Error, naming the
// cause, if a setting cannot be represented, if tensors are missing, unknown or of the wrong shape,
// or if a file is damaged. After an error, the checkpoint does not exist.
ImportSummary import_folder(const std::filesystem::path& folder,
                            const std::filesystem::path& checkpoint, const ImportOptions&);

// Returns true if the folder contains peft adapters.
bool is_adapter_folder(const std::filesystem::path&);
// Imports adapters as a checkpoint of adapters for `base`, with the modules that peft trained as a
// whole. The checkpoint takes its shapes, type, deck and tokenizer from `base`. Throws Error,
// naming the cause, in these cases:
// - adapter_config.json contains a setting that is unknown or not supported.
// - A module is only in adapter_config.json or only among the tensors.
// - Tensors are missing, unknown or of the wrong shape.
// - Weights are not finite, or so large that their product is not finite.
ImportSummary import_adapters(const std::filesystem::path& folder,
                              const std::filesystem::path& checkpoint,
                              const CheckpointReader& base);

}  // namespace trireme
