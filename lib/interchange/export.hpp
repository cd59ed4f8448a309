#pragma once
// Exports checkpoints to other programs: to a folder for Hugging Face's transformers, or to one
// plain HDF5 file. Data is processed in chunks. Memory holds two chunks at a time, or a whole
// tensor if it must be transposed.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/interchange/elements.hpp"
#include "lib/interchange/stored_model.hpp"

namespace trireme {

// Statistics of an export.
struct ExportSummary {
  // Name of the architecture in transformers. Empty for an HDF5 file.
  std::string architecture;
  ElementType type{};
  std::size_t tensors = 0, files = 0;
  // Size of all elements in bytes.
  std::int64_t bytes = 0;
};

inline constexpr std::int64_t default_shard_bytes = 5'000'000'000;

// Exports to a new folder for AutoModelForCausalLM.from_pretrained. Weights files are at most
// `shard_bytes` long, unless a single tensor is larger. Elements are rounded to `type`. If `type`
// is absent, they have the type of the imported model from which the checkpoint was trained, or
// else the checkpoint's type. Throws Error if no architecture of transformers matches the model, if
// the checkpoint is damaged, or if writing fails. After an error, the folder does not exist.
ExportSummary export_safetensors(StoredModel, const std::filesystem::path& folder,
                                 std::optional<ElementType> type,
                                 std::int64_t shard_bytes = default_shard_bytes);

// Exports any model to a new HDF5 file (lib/io/weights_file.hpp). `type` must be f32 or f64 and, if
// absent, is the checkpoint's type.
ExportSummary export_hdf5(StoredModel, const std::filesystem::path& file,
                          std::optional<ElementType> type);

// Exports a checkpoint's adapters and also-trained parameters to a new folder for peft. The
// folder contains adapter_model.safetensors, an adapter_config.json that names `base`, the
// tokenizer with its chat template, and a README.md. Throws Error if no architecture of
// transformers matches the model.
ExportSummary export_adapters(CheckpointReader&, const ModelConfig&, const AdapterConfig&,
                              const std::string& base, const std::filesystem::path& folder);

}  // namespace trireme
