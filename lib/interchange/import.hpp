#pragma once
// A folder of Hugging Face's as a checkpoint, which model.init_from takes on any grid. Streams:
// beside the writer's chunks it holds one chunk, and for a transposed tensor that tensor.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "lib/base/dtype.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/config.hpp"

namespace trireme {

struct ImportOptions {
  std::optional<DType> master;          // f32 or f64; none: f64 for weights in f64, else f32
  std::optional<std::int64_t> context;  // tokens of a sample; none: the model's
};

struct ImportSummary {
  ModelConfig model;
  std::string tokenizer;  // its kind
  DType master{};
  std::set<ElementType> types;                      // of the folder's tensors
  std::size_t tensors = 0, files = 0, skipped = 0;  // skipped: known buffers
};

// `checkpoint` must not exist. Error naming what cannot be represented, tensors that are missing,
// unknown or of another shape, and damaged files; then there is no checkpoint.
ImportSummary import_folder(const std::filesystem::path& folder,
                            const std::filesystem::path& checkpoint, const ImportOptions&);

// Does the folder hold peft's adapters?
bool is_adapter_folder(const std::filesystem::path&);
// Such a folder as a checkpoint of adapters beside `base`, whose shape, type, deck and tokenizer it
// takes. Error naming what is not known or not possible in adapter_config.json, modules that it or
// the tensors alone have, tensors that are missing, unknown or of another shape, and weights that
// are not finite or add what is not.
ImportSummary import_adapters(const std::filesystem::path& folder,
                              const std::filesystem::path& checkpoint,
                              const CheckpointReader& base);

}  // namespace trireme
