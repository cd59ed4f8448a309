#pragma once
// Checkpoints as files of others: a folder for Hugging Face's transformers, or one plain HDF5 file.
// Streams: beside the reader's chunk it holds one chunk, and for a transposed tensor that tensor.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/interchange/elements.hpp"
#include "lib/interchange/stored_model.hpp"

namespace trireme {

struct ExportSummary {
  std::string architecture;  // empty: of a plain file
  ElementType type{};
  std::size_t tensors = 0, files = 0;
  std::int64_t bytes = 0;  // of elements
};

inline constexpr std::int64_t default_shard_bytes = 5'000'000'000;

// To a new folder that AutoModelForCausalLM.from_pretrained takes. No file of weights is larger
// than `shard_bytes` unless a single tensor is. Elements are those of the checkpoint, rounded to
// `type` where it is given. Error for a model that no architecture describes, a damaged checkpoint
// and a failed write; then there is no folder.
ExportSummary export_safetensors(StoredModel, const std::filesystem::path& folder,
                                 std::optional<ElementType> type,
                                 std::int64_t shard_bytes = default_shard_bytes);

// To a new HDF5 file as lib/io/weights_file.hpp says, of any model; in f32 or f64.
ExportSummary export_hdf5(StoredModel, const std::filesystem::path& file,
                          std::optional<ElementType> type);

// The adapters of a checkpoint to a new folder that peft opens: adapter_config.json, which names
// `base` as the model that they stand beside, and adapter_model.safetensors. Error for a model that
// no architecture describes.
ExportSummary export_adapters(CheckpointReader&, const ModelConfig&, const std::string& base,
                              const std::filesystem::path& folder);

}  // namespace trireme
